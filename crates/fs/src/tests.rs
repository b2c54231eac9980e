//! What users of the file system rely on.

mod basics;
mod model;
mod reference;
mod world;
