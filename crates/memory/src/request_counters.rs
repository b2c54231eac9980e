//! Counters of requests of one kind: how many, how many bytes, how many failed, and how long they took.

use crate::shard::{Padded, SHARDS, own_shard};
use crate::{LatencyCounts, RequestTiming, RequestWords};

/// Counts the requests of one kind, by many threads, each in words of its own.
#[derive(Debug)]
pub struct RequestCounters(Box<[Padded<RequestWords>]>);

impl Default for RequestCounters {
    fn default() -> Self {
        Self((0..SHARDS).map(|_| Padded::default()).collect())
    }
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
    fn own(&self) -> &RequestWords {
        &self.0[own_shard()].0
    }

    /// Begins a request, as [`RequestWords::begin`].
    #[inline]
    pub fn begin(&self, now: fn() -> u64) -> RequestTiming {
        self.own().begin(now)
    }

    /// Counts a request that ends now: its bytes, or `None` if it failed.
    #[inline]
    pub fn end(&self, timing: RequestTiming, now: fn() -> u64, bytes: Option<u64>) {
        self.own().end(timing, now, bytes);
    }

    /// Counts a request that took `ns` nanoseconds: its bytes, or `None` if it failed.
    #[inline]
    pub fn count(&self, ns: u64, bytes: Option<u64>) {
        self.own().end_timed(ns, bytes);
    }

    /// Returns the counts; of requests that end now some parts may be missing.
    pub fn totals(&self) -> RequestTotals {
        let mut totals = RequestTotals::default();
        self.0.iter().for_each(|shard| totals.add(&shard.0.totals()));
        totals
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
