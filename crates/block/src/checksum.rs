//! Checksums: the CRC-32 of each block's content, in DRAM beside the map's words.
//!
//! A reader looks up the word, copies, and compares with the checksum of the same index. While a writer changes the
//! block, a reader can meet new data and an old checksum. A mismatch counts only if it is seen again with the block
//! locked.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::table::GrowingTable;

/// Returns the checksum of `content`: the CRC-32 of zlib and Ethernet, 80 ns for 4 KiB.
#[inline]
pub(crate) fn checksum_of(content: &[u8]) -> u32 {
    crc32fast::hash(content)
}

/// The checksum of each block of a disk. The checksum of a block that reads as zeros has no meaning.
pub(crate) struct Checksums(GrowingTable<AtomicU32>);

impl Checksums {
    /// Makes an empty table that can grow to `blocks_max` blocks.
    pub fn new(blocks_max: u64) -> Self {
        Self(GrowingTable::new(blocks_max))
    }

    /// Grows the table to `blocks` blocks.
    ///
    /// # Errors
    /// [`ferrite_pool::Error::Medium`] if there is no memory for it.
    pub fn grow(&self, blocks: u64) -> ferrite_pool::Result<()> {
        self.0.grow(blocks)
    }

    /// Returns the checksum of block `index`.
    #[inline]
    pub fn get(&self, index: u64) -> u32 {
        self.0.row(index).load(Ordering::Acquire)
    }

    /// Sets the checksum of block `index`, which the caller has locked.
    #[inline]
    pub fn set(&self, index: u64, checksum: u32) {
        self.0.row(index).store(checksum, Ordering::Release);
    }
}
