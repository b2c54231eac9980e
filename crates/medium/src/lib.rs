//! Bytes that persist, and sectors that persist: the two waists everything in Ferrite rests on.
//!
//! [`Memory`] is what persistent memory is: load, store, flush, fence, barrier. [`Disk`] is what every
//! block-shaped thing is: read, write, flush, trim. Services are written against these two traits alone.

mod disk;
mod error;
mod memory;
mod scheme;
mod span;

pub use disk::{Access, Completion, Disk, Geometry, Op, Request, Run, Zeroing};
pub use error::{Error, Result};
pub use memory::{Memory, Shared, Survival};
pub use scheme::Scheme;
pub use span::Span;
