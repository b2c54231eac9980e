//! Chunks for which the host is known to have no storage. When the host is full, the other chunks can still be taken.

use std::ops::Range;

use crate::Result;
use crate::extent::Extent;

use super::{AllocatorState, PageAllocator, SpaceNeed};

/// The chunks that a search considers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkChoice {
    /// All chunks.
    All,
    /// Chunks for which the host may have storage.
    Kept,
    /// Chunks for which the host has no storage.
    Bare,
}

impl PageAllocator {
    /// Takes space as [`PageAllocator::take`] does, from chunks with storage before others.
    pub(crate) fn take_kept_first(&self, needs: &[SpaceNeed]) -> Result<Vec<Extent>> {
        self.take_among(&[ChunkChoice::Kept, ChunkChoice::Bare], needs)
    }

    /// Records whether the host has no storage for `chunks`.
    pub(crate) fn record_bare(&self, chunks: Range<u64>, is_bare: bool) {
        self.0.lock().bare[chunks.start as usize..chunks.end as usize].fill(is_bare);
    }

    /// Returns true if the host is known to have no storage for `chunk`.
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
