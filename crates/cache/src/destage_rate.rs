//! How fast dirty pages go to the disks.

/// The part of the excess over the target that is destaged each second.
const PROPORTIONAL: f64 = 1.0 / 40.0;
/// The part of the summed excess that is added each second.
const INTEGRAL: f64 = 1.0 / 10_000.0;
/// The target, as a part of the largest number of dirty pages.
const TARGET: f64 = 0.6;
/// A disk that no client used for this long is idle, in nanoseconds.
pub(crate) const IDLE_NS: u64 = 500_000_000;
/// The pages that may be saved up, in seconds of the rate.
const SAVED_S: f64 = 8.0;
/// The pages that a batch waits for, in seconds of the rate. A disk writes a large sorted batch faster than many small
/// ones, each with a flush of its own.
const BATCH_S: f64 = 5.0;

/// A controller with a proportional and an integral part: the rate follows the excess of dirty pages without swinging.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DestageRate {
    last_ns: Option<u64>,
    sum: f64,
    rate: f64,
    budget: f64,
}

impl DestageRate {
    /// Passes the time to `now_ns` with `dirty` dirty pages, of `dirty_max` that there may be. `fixed` is the rate that the
    /// user chose, in pages a second.
    pub fn pass(&mut self, now_ns: u64, dirty: u64, dirty_max: u64, fixed: Option<u32>) {
        let seconds = self.last_ns.map_or(0.0, |last_ns| now_ns.saturating_sub(last_ns) as f64 / 1e9).min(10.0);
        self.last_ns = Some(now_ns);
        let excess = dirty as f64 - TARGET * dirty_max as f64;
        self.sum = (self.sum + excess * seconds).clamp(0.0, dirty_max as f64 * 10_000.0);
        let followed = (excess * PROPORTIONAL + self.sum * INTEGRAL).max(0.0);
        self.rate = fixed.map_or(followed, f64::from);
        self.budget = (self.budget + self.rate * seconds).min((self.rate * SAVED_S).max(1.0));
    }

    /// Returns the pages that may go now, or 0 while they are fewer than a batch, which has `batch` pages at most.
    pub fn pages(&self, batch: usize) -> usize {
        match self.budget < (self.rate * BATCH_S).min(batch as f64) {
            true => 0,
            false => self.budget.max(0.0) as usize,
        }
    }

    /// Counts pages that went.
    pub fn spend(&mut self, pages: usize) {
        self.budget = (self.budget - pages as f64).max(0.0);
    }

    /// Returns the rate in pages a second.
    pub fn pages_per_second(&self) -> f64 {
        self.rate
    }
}

#[cfg(test)]
mod tests;
