//! Blocks whose map word in DRAM is newer than the one on the medium.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::table::GrowingTable;

/// One bit for each block.
pub(crate) struct DirtyBlocks(GrowingTable<AtomicU64>);

impl DirtyBlocks {
    /// Makes an empty table that can grow to `blocks_max` blocks.
    pub fn new(blocks_max: u64) -> Self {
        Self(GrowingTable::new(blocks_max.div_ceil(64)))
    }

    /// Grows the table to `blocks` blocks.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Medium`] if there is no memory for it.
    pub fn grow(&self, blocks: u64) -> ferrite_pool::Result<()> {
        self.0.grow(blocks.div_ceil(64))
    }

    /// Marks block `index`. Returns true if it was marked.
    pub fn mark(&self, index: u64) -> bool {
        let bit = 1 << (index % 64);
        self.0.row(index / 64).fetch_or(bit, Ordering::AcqRel) & bit != 0
    }

    /// Clears block `index`.
    pub fn clear(&self, index: u64) {
        self.0.row(index / 64).fetch_and(!(1 << (index % 64)), Ordering::AcqRel);
    }

    /// Returns the marked blocks below `blocks`, in order.
    pub fn marked(&self, blocks: u64) -> impl Iterator<Item = u64> + '_ {
        (0..blocks.div_ceil(64)).flat_map(|row| {
            let word = self.0.row(row).load(Ordering::Acquire);
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| row * 64 + bit)
        })
    }
}
