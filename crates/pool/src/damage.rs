//! Something on the medium that cannot be read.

use crate::Error;

/// Something on the medium that cannot be read, and the slot to clear to be rid of it.
#[derive(Debug)]
pub struct TableDamage {
    /// What is wrong and where.
    pub error: Error,
    /// The slot that is damaged, or the page that cannot be reached.
    pub at: u64,
    /// Whether clearing that slot is the repair.
    pub is_slot: bool,
}
