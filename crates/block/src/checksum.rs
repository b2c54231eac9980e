//! Checksums: the CRC-32 of each block's content, in DRAM beside the map's words.
//!
//! A reader finds the word, copies, and compares with the checksum of the same index. Who changes a block in the
//! meantime can make the two meet that do not belong together, so a mismatch counts only when it is seen again with the
//! block locked.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::table::GrowingTable;

/// The checksum of `content`: the CRC-32 of zlib and Ethernet, 80 ns for 4 KiB.
#[inline]
pub(crate) fn checksum_of(content: &[u8]) -> u32 {
    crc32fast::hash(content)
}

/// The checksum of each block of a disk. That of a block that reads as zeros says nothing.
pub(crate) struct Checksums(GrowingTable<AtomicU32>);

impl Checksums {
    /// None, with room for `blocks_max`.
    pub fn new(blocks_max: u64) -> Self {
        Self(GrowingTable::new(blocks_max))
    }

    /// Makes room for blocks `0 .. blocks`.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn grow(&self, blocks: u64) -> ferrite_pool::Result<()> {
        self.0.grow(blocks)
    }

    /// That of block `index`.
    #[inline]
    pub fn get(&self, index: u64) -> u32 {
        self.0.row(index).load(Ordering::Acquire)
    }

    /// Sets that of block `index`, which the caller has locked.
    #[inline]
    pub fn set(&self, index: u64, checksum: u32) {
        self.0.row(index).store(checksum, Ordering::Release);
    }
}
