//! Helpers for the tests of other modules.

use super::*;

impl PageAllocator {
    /// Returns every run of pages in use, in order: chunks one by one, pages of the normal zone joined.
    pub(crate) fn runs_in_use(&self) -> Vec<Extent> {
        let state = self.0.lock();
        let mut runs: Vec<Extent> = Vec::new();
        for (chunk, kind) in state.kinds.iter().enumerate() {
            let first = chunk as u64 * CHUNK_PAGES;
            let run = |page, pages, zone| Extent { page, pages, role: Role::DATA, zone };
            if *kind == ChunkUse::Super {
                runs.push(run(first, CHUNK_PAGES as u32, Zone::Super));
            }
            for index in (0..CHUNK_PAGES).filter(|index| bit(&state.bitmaps[chunk], *index)) {
                match runs.last_mut() {
                    Some(last) if last.end() == first + index && index > 0 => last.pages += 1,
                    _ => runs.push(run(first + index, 1, Zone::Normal)),
                }
            }
        }
        runs
    }
}
