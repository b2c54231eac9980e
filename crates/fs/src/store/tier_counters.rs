//! What a tier has done since its file system was opened.

use std::sync::atomic::{AtomicU64, Ordering};

/// A count that only grows.
#[derive(Debug, Default)]
pub(crate) struct TierCounter(AtomicU64);

impl TierCounter {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the count.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counts of a tier. What its SSDs were asked for is counted at the SSDs.
#[derive(Debug, Default)]
pub(crate) struct TierCounters {
    /// Segments that were written with pages of the pool.
    pub destaged_segments: TierCounter,
    /// Pages in them.
    pub destaged_pages: TierCounter,
    /// Clean pages that left the pool.
    pub evicted_pages: TierCounter,
    /// Pages that came back to the pool.
    pub brought_in_pages: TierCounter,
    /// Segments that were emptied by cleaning.
    pub cleaned_segments: TierCounter,
    /// Pages that moved to another segment.
    pub moved_pages: TierCounter,
}
