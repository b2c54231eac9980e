//! Taking given pages.

use crate::chunk_pages::ChunkPages;
use crate::extent::{Extent, Zone};
use crate::layout::CHUNK_PAGES;

use super::{AllocatorState, ChunkUse, PageAllocator};

impl PageAllocator {
    /// Takes the pages of `extent`, in DRAM alone. Pages of the normal zone have to lie in one chunk. If one of them is
    /// not free, takes nothing and returns false.
    pub(crate) fn take_at(&self, extent: Extent) -> bool {
        let mut state = self.0.lock();
        let chunks = (extent.page / CHUNK_PAGES) as usize..extent.end().div_ceil(CHUNK_PAGES) as usize;
        match extent.zone {
            Zone::Super => {
                let is_free = chunks.end <= state.kinds.len() && chunks.clone().all(|chunk| state.is_idle(chunk));
                chunks.filter(|_| is_free).for_each(|chunk| state.kinds[chunk] = ChunkUse::Super);
                is_free
            }
            Zone::Normal => state.take_pages_at(chunks.start, extent),
        }
    }

    /// Turns a superpage into pages of the normal zone, all in use, in DRAM alone.
    pub(crate) fn split(&self, chunk: u64) {
        let mut state = self.0.lock();
        state.kinds[chunk as usize] = ChunkUse::Normal;
        state.bitmaps[chunk as usize] = [u64::MAX; 8];
    }

    /// Undoes [`PageAllocator::split`].
    pub(crate) fn join(&self, chunk: u64) {
        let mut state = self.0.lock();
        state.kinds[chunk as usize] = ChunkUse::Super;
        state.bitmaps[chunk as usize] = [0; 8];
    }

    /// Returns the free pages of `chunk`: all of a free chunk, none of a superpage.
    pub(crate) fn free_pages(&self, chunk: u64) -> ChunkPages {
        let state = self.0.lock();
        match state.kinds[chunk as usize] {
            ChunkUse::Free => ChunkPages::ALL,
            ChunkUse::Normal => ChunkPages::ALL.without(ChunkPages::from_words(state.bitmaps[chunk as usize])),
            ChunkUse::Meta | ChunkUse::Super => ChunkPages::default(),
        }
    }

    /// Returns for each chunk whether it can be taken for either zone (A2).
    pub(crate) fn idle(&self) -> Vec<bool> {
        let state = self.0.lock();
        (0..state.kinds.len()).map(|chunk| state.is_idle(chunk)).collect()
    }
}

impl AllocatorState {
    fn take_pages_at(&mut self, chunk: usize, extent: Extent) -> bool {
        let first = extent.page - chunk as u64 * CHUNK_PAGES;
        let mut wanted = ChunkPages::default();
        wanted.insert(first..first + u64::from(extent.pages));
        let masks: Vec<u64> = wanted.words().collect();
        let is_free = matches!(self.kinds.get(chunk), Some(ChunkUse::Free | ChunkUse::Normal))
            && self.bitmaps[chunk].iter().zip(&masks).all(|(word, mask)| word & mask == 0);
        if is_free {
            self.kinds[chunk] = ChunkUse::Normal;
            self.bitmaps[chunk].iter_mut().zip(&masks).for_each(|(word, mask)| *word |= mask);
        }
        is_free
    }
}
