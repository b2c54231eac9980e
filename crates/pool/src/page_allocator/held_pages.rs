//! Holding pages that are free on the medium.

use crate::extent::{Extent, Role, Zone};
use crate::layout::CHUNK_PAGES;

use super::{AllocatorState, ChunkUse, PageAllocator};

impl PageAllocator {
    /// Takes the free pages of `runs`, in DRAM alone, and returns them. A free chunk that `runs` covers wholly is taken
    /// for the super zone.
    pub(crate) fn hold(&self, runs: &[Extent]) -> Vec<Extent> {
        let (mut state, mut held) = (self.0.lock(), Vec::new());
        for run in runs {
            let mut page = run.page;
            while page < run.end() {
                let end = (page / CHUNK_PAGES + 1) * CHUNK_PAGES;
                state.hold_in_chunk(page, end.min(run.end()), &mut held);
                page = end;
            }
        }
        held
    }
}

impl AllocatorState {
    /// Holds pages `first .. end` of one chunk as [`PageAllocator::hold`] does.
    fn hold_in_chunk(&mut self, first: u64, end: u64, held: &mut Vec<Extent>) {
        let chunk = (first / CHUNK_PAGES) as usize;
        let extent = |page, pages, zone| Extent { page, pages, role: Role::DATA, zone };
        match self.kinds.get(chunk) {
            Some(ChunkUse::Free) if end - first == CHUNK_PAGES => {
                self.kinds[chunk] = ChunkUse::Super;
                held.push(extent(first, CHUNK_PAGES as u32, Zone::Super));
                return;
            }
            // The kind on the medium changes with the first transaction that takes a page of the chunk (A2).
            Some(ChunkUse::Free) => self.kinds[chunk] = ChunkUse::Normal,
            Some(ChunkUse::Normal) => {}
            Some(ChunkUse::Meta | ChunkUse::Super) | None => return,
        }
        for page in first..end {
            let word = &mut self.bitmaps[chunk][(page % CHUNK_PAGES / 64) as usize];
            let mask = 1 << (page % 64);
            if *word & mask == 0 {
                *word |= mask;
                match held.last_mut() {
                    Some(last) if last.zone == Zone::Normal && last.end() == page => last.pages += 1,
                    _ => held.push(extent(page, 1, Zone::Normal)),
                }
            }
        }
    }
}
