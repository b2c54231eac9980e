//! What the tests of several modules share.

pub mod format_page;
pub mod support;
