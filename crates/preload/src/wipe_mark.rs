//! The mark of the table's memory: true while the table is valid, and false after the kernel wiped the memory in a child
//! of fork (LD6).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static MARK: OnceLock<&AtomicBool> = OnceLock::new();

/// Registers `mark`, which lies in the table's memory.
pub fn register(mark: &'static AtomicBool) {
    let _ = MARK.set(mark);
}

/// Returns the mark, if there is a table.
pub fn registered() -> Option<&'static AtomicBool> {
    MARK.get().copied()
}

/// Returns true if there is no table, or a wiped one of a parent whose state still exists here.
pub fn is_void() -> bool {
    registered().is_none_or(|mark| !mark.load(Ordering::Acquire))
}
