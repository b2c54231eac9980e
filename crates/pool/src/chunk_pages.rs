//! Sets of pages of a chunk.

use std::ops::Range;

use ferrite_memory::Memory;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::{CHUNK_PAGES, bitmap_at};

/// A set of the 512 pages of a chunk, in the layout of the bitmap on the medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub(crate) struct ChunkPages([u8; CHUNK_PAGES as usize / 8]);

impl Default for ChunkPages {
    fn default() -> Self {
        Self([0; CHUNK_PAGES as usize / 8])
    }
}

impl ChunkPages {
    /// The set of all pages.
    pub const ALL: Self = Self([0xff; CHUNK_PAGES as usize / 8]);

    /// Returns the pages that the bitmap of `chunk` marks.
    pub fn load_bitmap(memory: &dyn Memory, chunk: u64) -> Self {
        let mut pages = Self::default();
        memory.load(bitmap_at(chunk), &mut pages.0);
        pages
    }

    /// Returns the pages that the bytes of a bitmap mark.
    pub fn of_bytes(bitmap: [u8; CHUNK_PAGES as usize / 8]) -> Self {
        Self(bitmap)
    }

    /// Returns the pages that `words` mark.
    pub fn from_words(words: [u64; CHUNK_PAGES as usize / 64]) -> Self {
        let words = words.map(u64::to_le_bytes);
        Self(zerocopy::transmute!(words))
    }

    /// Returns the words of the bitmap.
    pub fn words(self) -> impl Iterator<Item = u64> {
        let words: [[u8; 8]; 8] = zerocopy::transmute!(self.0);
        words.into_iter().map(u64::from_le_bytes)
    }

    /// Returns true if `page` of the chunk is in the set.
    pub fn contains(self, page: u64) -> bool {
        self.0[(page / 8) as usize] >> (page % 8) & 1 == 1
    }

    /// Adds `pages` of the chunk.
    pub fn insert(&mut self, pages: Range<u64>) {
        pages.for_each(|page| self.0[(page / 8) as usize] |= 1 << (page % 8));
    }

    /// Returns the pages that are not in `others`.
    pub fn without(self, others: Self) -> Self {
        Self(std::array::from_fn(|byte| self.0[byte] & !others.0[byte]))
    }

    /// Returns the number of pages.
    pub fn count(self) -> u64 {
        self.0.iter().map(|byte| u64::from(byte.count_ones())).sum()
    }

    /// Returns true if the set is empty.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }

    /// Returns the runs of neighbouring pages, in order.
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
