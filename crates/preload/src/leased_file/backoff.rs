//! The backoff after a refused or revoked lease: a moment at first, longer each time.

use std::sync::atomic::{AtomicU64, Ordering};

const LEAST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 10_000_000_000;

/// A backoff that doubles: see the module.
pub struct RetryBackoff {
    until_ns: AtomicU64,
    next_ns: AtomicU64,
}

impl RetryBackoff {
    pub const fn new() -> Self {
        Self { until_ns: AtomicU64::new(0), next_ns: AtomicU64::new(LEAST_NS) }
    }

    /// Begins a backoff; after a long time without one, the shortest.
    pub fn begin(&self, now_ns: u64) {
        let (next_ns, until_ns) = (self.next_ns.load(Ordering::Relaxed), self.until_ns.load(Ordering::Relaxed));
        let rest_ns = if now_ns.saturating_sub(until_ns) > 10 * next_ns { LEAST_NS } else { next_ns };
        self.until_ns.store(now_ns + rest_ns, Ordering::Relaxed);
        self.next_ns.store((2 * rest_ns).min(MOST_NS), Ordering::Relaxed);
    }

    pub fn is_over(&self, now_ns: u64) -> bool {
        now_ns >= self.until_ns.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
