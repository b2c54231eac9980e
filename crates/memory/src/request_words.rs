//! Counters of requests of one kind in words that processes can share.
//!
//! ```text
//! word  0 requests   1 bytes of those that succeeded   2 requests that failed   3 sum of the latencies in nanoseconds
//!       4 bucket[280] of latencies
//! ```
//!
//! A small request is not much longer than two readings of a clock. So the first requests are all timed, and of the later
//! ones one of 16, which counts as 16 latencies. The requests, bytes and errors are exact.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::RequestTotals;
use crate::latency_histogram::{BUCKETS, bucket_of, counts_of};

/// The number of requests that are all timed.
const ALL_TIMED: u64 = 256;
/// Of this many later requests one is timed, as a power of two.
const SPARE_BITS: u32 = 4;
/// 2 to the power of 64 by the golden ratio. Multiples of it spread evenly, so that no period of a program hides from
/// the requests that are timed.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number of words of [`RequestWords`].
pub const REQUEST_WORDS: usize = size_of::<RequestWords>() / 8;

/// Counts the requests of one kind, in words of this process or of [`crate::SharedWords`].
#[derive(Debug)]
#[repr(C)]
pub struct RequestWords {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
    sum_ns: AtomicU64,
    buckets: [AtomicU64; BUCKETS],
}

/// The beginning of a request that is being counted.
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct RequestTiming {
    begun_ns: u64,
    /// The number of latencies that the request counts as; 0 if it is not timed.
    weight: u64,
}

impl Default for RequestWords {
    fn default() -> Self {
        let [requests, bytes, errors, sum_ns] = [const { AtomicU64::new(0) }; 4];
        Self { requests, bytes, errors, sum_ns, buckets: [const { AtomicU64::new(0) }; BUCKETS] }
    }
}

/// Returns the number of latencies that request `number` counts as.
#[inline]
fn weight_of(number: u64) -> u64 {
    match number {
        0..ALL_TIMED => 1,
        _ if number.wrapping_mul(GOLDEN) >> (u64::BITS - SPARE_BITS) == 0 => 1 << SPARE_BITS,
        _ => 0,
    }
}

fn add_shared(word: &AtomicU64, amount: u64) {
    word.fetch_add(amount, Ordering::Relaxed);
}

impl RequestTiming {
    /// Returns how long a request took that ends now, and its weight, if it is timed.
    #[inline]
    fn ended(self, now_ns: fn() -> u64) -> Option<(u64, u64)> {
        (self.weight > 0).then(|| (now_ns().saturating_sub(self.begun_ns), self.weight))
    }
}

impl RequestWords {
    /// Begins a request. `now_ns` is the caller's clock, in nanoseconds.
    #[inline]
    pub fn begin(&self, now_ns: fn() -> u64) -> RequestTiming {
        let weight = weight_of(self.requests.load(Ordering::Relaxed));
        RequestTiming { begun_ns: if weight == 0 { 0 } else { now_ns() }, weight }
    }

    /// Counts a request that ends now: its bytes, or `None` if it failed. Any thread of any process counts at any time.
    #[inline]
    pub fn end(&self, timing: RequestTiming, now_ns: fn() -> u64, bytes: Option<u64>) {
        self.count(timing.ended(now_ns), bytes, add_shared);
    }

    /// Counts as [`RequestWords::end`], in less time. The calls do not overlap: the caller has a lock.
    #[inline]
    pub fn end_alone(&self, timing: RequestTiming, now_ns: fn() -> u64, bytes: Option<u64>) {
        self.count(timing.ended(now_ns), bytes, |word, amount| {
            word.store(word.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        });
    }

    /// Counts as [`RequestWords::end`] a request that was timed and took `ns` nanoseconds.
    #[inline]
    pub fn end_timed(&self, ns: u64, bytes: Option<u64>) {
        self.count(Some((ns, 1)), bytes, add_shared);
    }

    /// Counts a request with its latency and the number of latencies that this counts as.
    #[inline(always)]
    fn count(&self, latency: Option<(u64, u64)>, bytes: Option<u64>, add: impl Fn(&AtomicU64, u64)) {
        add(&self.requests, 1);
        match bytes {
            Some(0) => {}
            Some(bytes) => add(&self.bytes, bytes),
            None => add(&self.errors, 1),
        }
        if let Some((ns, weight)) = latency {
            add(&self.buckets[bucket_of(ns)], weight);
            add(&self.sum_ns, ns.saturating_mul(weight));
        }
    }

    /// Returns the counts; of requests that end now some parts may be missing.
    pub fn totals(&self) -> RequestTotals {
        let [requests, bytes, errors, sum_ns] =
            [&self.requests, &self.bytes, &self.errors, &self.sum_ns].map(|word| word.load(Ordering::Relaxed));
        let latency = counts_of(sum_ns, |bucket| self.buckets[bucket].load(Ordering::Relaxed));
        RequestTotals { requests, bytes, errors, latency }
    }

    /// Sets all counts to 0. Of a request that ends now some parts may remain.
    pub fn clear(&self) {
        let words = [&self.requests, &self.bytes, &self.errors, &self.sum_ns];
        words.into_iter().chain(&self.buckets).for_each(|word| word.store(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
