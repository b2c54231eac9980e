//! The tests of the whole crate, and the helpers that its tests share.

mod format_page;
mod models;
pub mod support;
