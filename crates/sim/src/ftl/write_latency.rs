//! How long each write delays the host, by the flash's timings.

/// The durations of a flash memory's operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashTiming {
    /// Reading a page.
    pub read_ns: u64,
    /// Programming a page.
    pub program_ns: u64,
    /// Erasing a block.
    pub erase_ns: u64,
}

impl Default for FlashTiming {
    /// Returns the timings of single-level cells with large blocks, as in FAST's paper (Lee et al. 2007): 25 us, 200
    /// us, 2 ms.
    fn default() -> Self {
        Self { read_ns: 25_000, program_ns: 200_000, erase_ns: 2_000_000 }
    }
}

/// Classes for each doubling: a class is within 3 % of its times.
const STEPS: usize = 32;

/// A distribution of times: mean, quantiles and maximum.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WriteLatency {
    classes: Vec<LatencyClass>,
    count: u64,
    sum_ns: u128,
    max_ns: u64,
}

/// Times of about the same length.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct LatencyClass {
    count: u64,
    max_ns: u64,
}

impl WriteLatency {
    /// Counts `times` requests that took `ns` each.
    pub fn add(&mut self, ns: u64, times: u64) {
        let class = class_of(ns);
        if class >= self.classes.len() {
            self.classes.resize(class + 1, LatencyClass::default());
        }
        let known = &mut self.classes[class];
        *known = LatencyClass { count: known.count + times, max_ns: known.max_ns.max(ns) };
        self.count += times;
        self.sum_ns += u128::from(ns) * u128::from(times);
        self.max_ns = self.max_ns.max(ns);
    }

    /// Returns the mean; 0 if there are no times.
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum_ns as f64 / self.count as f64 }
    }

    /// Returns the maximum.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// Returns the time that `part` of the times do not exceed, to within 3 %.
    pub fn quantile_ns(&self, part: f64) -> u64 {
        let wanted = (part * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for class in &self.classes {
            seen += class.count;
            if seen >= wanted {
                return class.max_ns;
            }
        }
        self.max_ns
    }
}

/// Returns the class of a time. Small times have a class each, larger ones 32 classes a doubling.
fn class_of(ns: u64) -> usize {
    let doubling = (ns / STEPS as u64).checked_ilog2().map_or(0, |log| log as usize);
    doubling * STEPS + (ns >> doubling) as usize
}

#[cfg(test)]
mod tests;
