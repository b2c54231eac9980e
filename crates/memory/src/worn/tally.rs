//! How writes are spread over the units of a memory.

use std::collections::BTreeMap;

/// How writes are spread over pages or lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// Units there are.
    pub units: u64,
    /// Units that were written at least once.
    pub written: u64,
    /// Writes of all units together.
    pub total: u64,
    /// Writes of the most written unit; `u32::MAX` stands for that or more.
    pub max: u32,
    /// Writes of a unit if all were worn evenly.
    pub mean: f64,
    /// Of the units that were written, half were written at most so often.
    pub p50: u32,
    /// Nine in ten.
    pub p90: u32,
    /// 99 in 100.
    pub p99: u32,
    /// 999 in 1000.
    pub p999: u32,
    /// Gini's coefficient over all units: 0 where all are worn evenly, towards 1 where one takes every write.
    pub gini: f64,
}

/// How many units were written how often.
#[derive(Default)]
pub(super) struct Histogram(BTreeMap<u32, u64>);

impl Histogram {
    /// Adds a unit.
    pub fn add(&mut self, writes: u32) {
        if writes > 0 {
            *self.0.entry(writes).or_default() += 1;
        }
    }

    /// Returns the tally of `units` units. Units that were not added were never written.
    pub fn tally(&self, units: u64) -> Tally {
        let written = self.0.values().sum();
        let total = self.0.iter().map(|(writes, count)| u64::from(*writes) * count).sum();
        Tally {
            units,
            written,
            total,
            max: self.0.keys().next_back().copied().unwrap_or(0),
            mean: total as f64 / units.max(1) as f64,
            p50: self.percentile(written, 500),
            p90: self.percentile(written, 900),
            p99: self.percentile(written, 990),
            p999: self.percentile(written, 999),
            gini: self.gini(units),
        }
    }

    /// The least count that `thousandths` of the written units do not pass.
    fn percentile(&self, written: u64, thousandths: u64) -> u32 {
        let rank = (written * thousandths).div_ceil(1000);
        let mut below = 0;
        let found = self.0.iter().find(|(_, count)| {
            below += **count;
            below >= rank
        });
        found.map_or(0, |(writes, _)| *writes)
    }

    /// With x sorted upwards and ranked from 1: 2 * sum(rank * x) / (n * sum(x)) - (n + 1) / n.
    fn gini(&self, units: u64) -> f64 {
        let n = units as f64;
        let mut before = n - self.0.values().sum::<u64>() as f64;
        let (mut ranked, mut total) = (0.0, 0.0);
        for (writes, count) in &self.0 {
            let (writes, count) = (f64::from(*writes), *count as f64);
            ranked += writes * count * (before + (count + 1.0) / 2.0);
            total += writes * count;
            before += count;
        }
        if total == 0.0 { 0.0 } else { 2.0 * ranked / (n * total) - (n + 1.0) / n }
    }
}
