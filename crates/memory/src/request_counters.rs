//! Counters of requests of one kind: how many, how many bytes, how many failed, and how long they took.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::shard::{Padded, SHARDS, own_shard};
use crate::{LatencyCounts, LatencyHistogram};

/// Counts the requests of one kind, by many threads.
#[derive(Default)]
pub struct RequestCounters {
    latency: LatencyHistogram,
    /// Bytes, and failed requests.
    sums: [Padded<[AtomicU64; 2]>; SHARDS],
}

/// The counts of [`RequestCounters`], or of [`crate::RequestWords`], at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestTotals {
    /// All requests.
    pub requests: u64,
    /// Bytes of the requests that succeeded.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// The latencies of all requests, or of a sample that stands for all.
    pub latency: LatencyCounts,
}

impl RequestCounters {
    /// Does `work`, which moves `bytes`, and counts it. `now` is the caller's clock, in nanoseconds.
    ///
    /// # Errors
    /// The error of `work`.
    #[inline]
    pub fn timed<T, E>(&self, now: fn() -> u64, bytes: u64, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let begun = now();
        let done = work();
        self.count(now().saturating_sub(begun), done.is_ok().then_some(bytes));
        done
    }

    /// Counts a request that took `ns` nanoseconds: its bytes, or `None` if it failed.
    #[inline]
    pub fn count(&self, ns: u64, bytes: Option<u64>) {
        self.latency.count(ns);
        let [moved, failed] = &self.sums[own_shard()].0;
        match bytes {
            Some(0) => {}
            Some(bytes) => _ = moved.fetch_add(bytes, Ordering::Relaxed),
            None => _ = failed.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Returns the counts; of requests that end now some parts may be missing.
    pub fn totals(&self) -> RequestTotals {
        let sum = |of: usize| self.sums.iter().map(|shard| shard.0[of].load(Ordering::Relaxed)).sum();
        let latency = self.latency.counts();
        RequestTotals { requests: latency.count(), bytes: sum(0), errors: sum(1), latency }
    }
}

impl RequestTotals {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        let Self { requests, bytes, errors, latency } = other;
        self.requests = self.requests.wrapping_add(*requests);
        self.bytes = self.bytes.wrapping_add(*bytes);
        self.errors = self.errors.wrapping_add(*errors);
        self.latency.add(latency);
    }
}

#[cfg(test)]
mod tests;
