//! Which chunks the host has nothing behind, as far as is known: where it is full, the others can be had.

use std::ops::Range;

use crate::Result;
use crate::extent::Extent;

use super::{AllocatorState, PageAllocator, SpaceNeed};

/// Which chunks a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkChoice {
    /// All.
    All,
    /// Those that the host may have storage behind.
    Kept,
    /// Those that it has none behind.
    Bare,
}

impl PageAllocator {
    /// As [`PageAllocator::take`], of chunks with storage before others.
    pub(crate) fn take_kept_first(&self, needs: &[SpaceNeed]) -> Result<Vec<Extent>> {
        self.take_among(&[ChunkChoice::Kept, ChunkChoice::Bare], needs)
    }

    /// Notes of `chunks` whether the host has nothing behind them.
    pub(crate) fn note_bare(&self, chunks: Range<u64>, is_bare: bool) {
        self.0.lock().bare[chunks.start as usize..chunks.end as usize].fill(is_bare);
    }

    /// Whether it is known to have nothing behind `chunk`.
    pub(crate) fn is_bare(&self, chunk: u64) -> bool {
        self.0.lock().bare[chunk as usize]
    }
}

impl AllocatorState {
    pub(super) fn is_among(&self, among: ChunkChoice, chunk: usize) -> bool {
        match among {
            ChunkChoice::All => true,
            ChunkChoice::Kept => !self.bare[chunk],
            ChunkChoice::Bare => self.bare[chunk],
        }
    }
}
