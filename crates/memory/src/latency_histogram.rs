//! Counts of latencies, in buckets whose width grows with the latency.
//!
//! ```text
//!   ns   0 1 2 ... 7 | 8 9 ... 15 | 16 18 ... 30 | 32 36 ... 60 | ... | 2^36 and more
//!        one bucket each          |  eight buckets for each power of two
//! ```
//!
//! A bucket is at most an eighth of its latency wide, so a quantile is too high by 12.5 % at most.

/// Buckets of each power of two, as a power of two.
const STEP_BITS: u32 = 3;
const STEPS: usize = 1 << STEP_BITS;
/// The power of two of the longest latencies that have buckets of their own: 2 minutes.
const LONGEST_BITS: u32 = 36;
/// The number of buckets.
pub(crate) const BUCKETS: usize = (LONGEST_BITS - STEP_BITS + 2) as usize * STEPS;

/// How many requests had which latencies, at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LatencyCounts {
    /// The sum of the latencies, in nanoseconds.
    pub sum_ns: u64,
    /// Each bucket that counted anything, with its count, from the shortest latency on.
    pub buckets: Vec<(u16, u64)>,
}

/// Returns the bucket of a latency.
#[inline]
pub(crate) fn bucket_of(ns: u64) -> usize {
    if ns < STEPS as u64 {
        return ns as usize;
    }
    let power = ns.ilog2();
    let step = (ns >> (power - STEP_BITS)) as usize % STEPS;
    ((power - STEP_BITS + 1) as usize * STEPS + step).min(BUCKETS - 1)
}

/// Returns the shortest latency of a bucket, in nanoseconds.
fn start_of(bucket: usize) -> u64 {
    match bucket / STEPS {
        0 => bucket as u64,
        octave => ((STEPS + bucket % STEPS) as u64) << (octave - 1),
    }
}

/// Returns the counts of buckets, which `count` returns.
pub(crate) fn counts_of(sum_ns: u64, count: impl Fn(usize) -> u64) -> LatencyCounts {
    let buckets = (0..BUCKETS).map(|bucket| (bucket as u16, count(bucket))).filter(|(_, count)| *count > 0);
    LatencyCounts { sum_ns, buckets: buckets.collect() }
}

/// Returns the sum of counts, some of which another process may have stored.
fn total<'a>(buckets: impl IntoIterator<Item = &'a (u16, u64)>) -> u64 {
    buckets.into_iter().fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

impl LatencyCounts {
    /// Returns the number of counted latencies.
    pub fn count(&self) -> u64 {
        total(&self.buckets)
    }

    /// Returns a latency, in nanoseconds, that the part `quantile` of all requests does not exceed: 0.5 for the median.
    /// `None` if nothing was counted. Latencies beyond the last bucket's start are reported as that start.
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let rank = (quantile * self.count() as f64).ceil().max(1.0) as u64;
        let mut passed = 0_u64;
        let (bucket, _) = self.buckets.iter().find(|(_, count)| {
            passed = passed.saturating_add(*count);
            passed >= rank
        })?;
        let bucket = usize::from(*bucket);
        Some(if bucket + 1 < BUCKETS { start_of(bucket + 1) - 1 } else { start_of(bucket) })
    }

    /// Returns how many latencies were shorter than 2 to the power of `power` nanoseconds.
    pub fn below_power(&self, power: u32) -> u64 {
        let is_below = |bucket: u16| start_of(usize::from(bucket)) < 1 << power;
        total(self.buckets.iter().filter(|(bucket, _)| is_below(*bucket)))
    }

    /// Adds the latencies of `other`.
    pub fn add(&mut self, other: &Self) {
        self.sum_ns = self.sum_ns.wrapping_add(other.sum_ns);
        for (bucket, count) in &other.buckets {
            match self.buckets.binary_search_by_key(bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(*count),
                Err(at) => self.buckets.insert(at, (*bucket, *count)),
            }
        }
    }

    /// Returns the latencies that were counted since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |bucket: u16| {
            let found = earlier.buckets.binary_search_by_key(&bucket, |(bucket, _)| *bucket);
            found.map_or(0, |at| earlier.buckets[at].1)
        };
        let newer = self.buckets.iter().map(|&(bucket, count)| (bucket, count.saturating_sub(before(bucket))));
        let buckets = newer.filter(|(_, count)| *count > 0).collect();
        Self { sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns), buckets }
    }
}

#[cfg(test)]
mod tests;
