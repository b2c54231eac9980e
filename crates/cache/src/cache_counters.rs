//! The counters of a cache since it was opened.

use std::sync::atomic::{AtomicU64, Ordering};

use ferrite_memory::planted;

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct EventCount(AtomicU64);

impl EventCount {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The reason why a request went around the cache (CA17).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BypassReason {
    Sequential,
    TooDirty,
    BuffersFull,
    Mode,
}

/// What a cache counts. Bytes where the name says so, else blocks or events.
#[derive(Debug, Default)]
pub(crate) struct CacheCounters {
    pub reads: EventCount,
    pub writes: EventCount,
    pub flushes: EventCount,
    pub trims: EventCount,
    pub zeroings: EventCount,
    pub buffer_hits: EventCount,
    pub ssd_hits: EventCount,
    pub write_hits: EventCount,
    pub misses: EventCount,
    pub fills: EventCount,
    pub fills_overtaken: EventCount,
    pub not_admitted: EventCount,
    pub around_bytes: [EventCount; 4],
    pub written_bytes: EventCount,
    pub stalls: EventCount,
    pub destaged_pages: EventCount,
    pub destage_runs: EventCount,
    pub destage_errors: EventCount,
    pub sealed_lebs: EventCount,
    pub collected_lebs: EventCount,
    pub moved_pages: EventCount,
    pub evicted_pages: EventCount,
    pub repaired_pages: EventCount,
}

impl CacheCounters {
    /// Counts `bytes` that went around the cache.
    pub fn count_around(&self, reason: BypassReason, bytes: u64) {
        if !planted!("cache: bytes around the cache are not counted") {
            self.around_bytes[reason as usize].add(bytes);
        }
    }
}
