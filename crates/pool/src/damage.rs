//! Damaged tables of a pool.

use crate::Error;

/// A table of the pool that cannot be read, and the slot whose clearing repairs it.
#[derive(Debug)]
pub struct TableDamage {
    /// The damage and its place.
    pub error: Error,
    /// The byte offset of the damaged slot, or of the page that cannot be reached.
    pub at: u64,
    /// True if clearing the slot repairs the table.
    pub is_slot: bool,
}
