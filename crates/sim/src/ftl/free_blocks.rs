//! Free blocks, the least worn first.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::FlashBlock;

/// TL3: the next free block is the least erased one, of several the lowest.
pub(super) struct FreeBlocks(BinaryHeap<Reverse<(u32, u32)>>);

impl FreeBlocks {
    /// Returns `blocks` blocks that were never erased.
    pub(super) fn all(blocks: u32) -> Self {
        Self((0..blocks).map(|block| Reverse((0, block))).collect())
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len() as u32
    }

    pub(super) fn take(&mut self) -> Option<FlashBlock> {
        self.0.pop().map(|Reverse((_, block))| FlashBlock(block))
    }

    pub(super) fn put(&mut self, block: FlashBlock, erases: u32) {
        self.0.push(Reverse((erases, block.0)));
    }
}
