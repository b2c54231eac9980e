//! Which of a chunk's pages.

use std::ops::Range;

use ferrite_memory::Memory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{CHUNK_PAGES, bitmap_at};

/// A set of the 512 pages of a chunk, laid out as the bitmap on the medium is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct ChunkPages([u8; CHUNK_PAGES as usize / 8]);

impl Default for ChunkPages {
    fn default() -> Self {
        Self([0; CHUNK_PAGES as usize / 8])
    }
}

impl ChunkPages {
    /// Every page.
    pub const ALL: Self = Self([0xff; CHUNK_PAGES as usize / 8]);

    /// Those of `chunk` that its bitmap marks.
    pub fn load_bitmap(memory: &dyn Memory, chunk: u64) -> Self {
        let mut pages = Self::default();
        memory.load(bitmap_at(chunk), &mut pages.0);
        pages
    }

    /// Those that `words` mark.
    pub fn from_words(words: [u64; CHUNK_PAGES as usize / 64]) -> Self {
        let words = words.map(u64::to_le_bytes);
        Self(zerocopy::transmute!(words))
    }

    /// The words of the bitmap.
    pub fn words(self) -> impl Iterator<Item = u64> {
        let words: [[u8; 8]; 8] = zerocopy::transmute!(self.0);
        words.into_iter().map(u64::from_le_bytes)
    }

    /// Whether `page` of the chunk is one of them.
    pub fn contains(self, page: u64) -> bool {
        self.0[(page / 8) as usize] >> (page % 8) & 1 == 1
    }

    /// Adds `pages` of the chunk.
    pub fn insert(&mut self, pages: Range<u64>) {
        pages.for_each(|page| self.0[(page / 8) as usize] |= 1 << (page % 8));
    }

    /// Those that are not in `others`.
    pub fn without(self, others: Self) -> Self {
        Self(std::array::from_fn(|byte| self.0[byte] & !others.0[byte]))
    }

    /// How many.
    pub fn count(self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// In order, neighbours together.
    pub fn runs(self) -> impl Iterator<Item = Range<u64>> {
        let mut page = 0;
        std::iter::from_fn(move || {
            let start = (page..CHUNK_PAGES).find(|page| self.contains(*page))?;
            let end = (start..CHUNK_PAGES).find(|page| !self.contains(*page)).unwrap_or(CHUNK_PAGES);
            page = end;
            Some(start..end)
        })
    }
}

#[cfg(test)]
mod tests;
