//! The flash pages of each block that hold a newest version.

use super::{FlashBlock, FlashShape};
use crate::prefetch::huge_table;

/// A bit for each page, in whole words for each block.
pub(super) struct ValidPages {
    words: Vec<u64>,
    block_words: usize,
    /// The number of valid pages of each block.
    counts: Vec<u16>,
}

impl ValidPages {
    /// Returns the set without a valid page.
    pub(super) fn none(shape: FlashShape) -> Self {
        let block_words = shape.block_pages.div_ceil(u64::BITS) as usize;
        let blocks = shape.blocks() as usize;
        Self { words: huge_table(0, block_words * blocks), block_words, counts: vec![0; blocks] }
    }

    /// Marks the page of `block` at `offset`, which was invalid, as valid.
    pub(super) fn enter(&mut self, block: FlashBlock, offset: u32) {
        self.counts[block.0 as usize] += 1;
        self.turn(block, offset);
    }

    /// Marks the page of `block` at `offset`, which was valid, as invalid.
    pub(super) fn leave(&mut self, block: FlashBlock, offset: u32) {
        self.counts[block.0 as usize] -= 1;
        self.turn(block, offset);
    }

    fn turn(&mut self, block: FlashBlock, offset: u32) {
        let word = block.0 as usize * self.block_words + (offset / u64::BITS) as usize;
        self.words[word] ^= 1 << (offset % u64::BITS);
    }

    /// Returns the number of valid pages of `block`.
    pub(super) fn count(&self, block: FlashBlock) -> u32 {
        self.counts[block.0 as usize].into()
    }

    /// Returns the offsets of the valid pages of `block`, in order.
    pub(super) fn of(&self, block: FlashBlock) -> impl Iterator<Item = u32> + '_ {
        let first = block.0 as usize * self.block_words;
        self.words[first..first + self.block_words].iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let offset = (left != 0).then(|| i as u32 * u64::BITS + left.trailing_zeros())?;
                left &= left - 1;
                Some(offset)
            })
        })
    }

    /// Marks all pages of `block` as invalid.
    pub(super) fn clear(&mut self, block: FlashBlock) {
        let first = block.0 as usize * self.block_words;
        self.words[first..first + self.block_words].fill(0);
        self.counts[block.0 as usize] = 0;
    }
}
