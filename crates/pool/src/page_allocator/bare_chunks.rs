//! Which chunks the host has nothing behind, as far as is known: where it is full, the others can be had.

use std::ops::Range;

use crate::Result;
use crate::extent::Extent;

use super::{Need, Space, State};

/// Which chunks a search looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// All.
    All,
    /// Those that the host may have storage behind.
    Kept,
    /// Those that it has none behind.
    Bare,
}

impl Space {
    /// As [`Space::take`], of chunks with storage before others.
    pub(crate) fn take_kept_first(&self, needs: &[Need]) -> Result<Vec<Extent>> {
        self.take_among(&[Among::Kept, Among::Bare], needs)
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

impl State {
    pub(super) fn is_among(&self, among: Among, chunk: usize) -> bool {
        match among {
            Among::All => true,
            Among::Kept => !self.bare[chunk],
            Among::Bare => self.bare[chunk],
        }
    }
}
