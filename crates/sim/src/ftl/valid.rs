//! Which pages of each block hold a newest version.

use super::{Block, Shape};

/// A bit for each page, in whole words for each block.
pub(super) struct Valid {
    words: Vec<u64>,
    block_words: usize,
}

impl Valid {
    /// None.
    pub(super) fn none(shape: Shape) -> Self {
        let block_words = shape.block_pages.div_ceil(u64::BITS) as usize;
        Self { words: vec![0; block_words * shape.blocks() as usize], block_words }
    }

    /// Notes whether the page of `block` at `offset` is one.
    pub(super) fn note(&mut self, block: Block, offset: u32, is_valid: bool) {
        let word = &mut self.words[block.0 as usize * self.block_words + (offset / u64::BITS) as usize];
        let bit = 1 << (offset % u64::BITS);
        *word = if is_valid { *word | bit } else { *word & !bit };
    }

    /// How many of `block` are.
    pub(super) fn count(&self, block: Block) -> u32 {
        self.words(block).iter().map(|word| word.count_ones()).sum()
    }

    /// The offsets of those of `block`, in order.
    pub(super) fn of(&self, block: Block) -> impl Iterator<Item = u32> + '_ {
        self.words(block).iter().enumerate().flat_map(|(i, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let offset = (left != 0).then(|| i as u32 * u64::BITS + left.trailing_zeros())?;
                left &= left - 1;
                Some(offset)
            })
        })
    }

    /// From now on none of `block` is.
    pub(super) fn clear(&mut self, block: Block) {
        let first = block.0 as usize * self.block_words;
        self.words[first..first + self.block_words].fill(0);
    }

    fn words(&self, block: Block) -> &[u64] {
        let first = block.0 as usize * self.block_words;
        &self.words[first..first + self.block_words]
    }
}
