//! The figures of a run.

use serde::Serialize;

use super::flash_drive::HostCounts;
use super::{Flash, FlashCounts, WriteLatency};

/// The requests of the host, and their cost in the flash.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashFigures {
    /// Pages that the host wrote.
    pub host_writes: u64,
    /// Pages that the layer moved.
    pub copied_pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// FAST's switch merges.
    pub switch_merges: u64,
    /// FAST's partial merges.
    pub partial_merges: u64,
    /// FAST's full merges.
    pub full_merges: u64,
    /// Pages programmed for each page that the host wrote.
    pub write_amplification: f64,
    /// Pages that the host read.
    pub host_reads: u64,
    /// Pages that the host trimmed.
    pub trimmed_pages: u64,
    /// Victims of collections, or random log blocks reclaimed.
    pub reclaimed_blocks: u64,
    /// Valid pages copied per erased block.
    pub copied_per_erase: f64,
    /// Valid pages copied per merge.
    pub copied_per_merge: f64,
    /// Valid pages copied per reclaimed block.
    pub copied_per_reclaimed_block: f64,
    /// How evenly blocks are worn.
    pub wear: WearSpread,
    /// How long writes delayed the host.
    pub latency: LatencyFigures,
}

/// Erases of the blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WearSpread {
    /// Erases of the least erased block.
    pub least_erases: u32,
    /// The mean erases of all blocks.
    pub mean_erases: f64,
    /// Erases of the most erased block.
    pub most_erases: u32,
}

/// How long one page's write delayed the host, in microseconds, if the flash does one thing at a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LatencyFigures {
    /// The mean.
    pub mean_us: f64,
    /// The median.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// The 99.9th percentile.
    pub p999_us: f64,
    /// The maximum.
    pub max_us: f64,
}

impl FlashFigures {
    pub(super) fn new(host: HostCounts, flash: &Flash, latency: &WriteLatency) -> Self {
        let counts = flash.counts;
        let FlashCounts { copied_pages, erases, switch_merges, partial_merges, full_merges, reclaimed_blocks } = counts;
        let copied_for_each = |many: u64| ratio(copied_pages, many);
        Self {
            host_writes: host.writes,
            copied_pages,
            erases,
            switch_merges,
            partial_merges,
            full_merges,
            write_amplification: ratio(host.writes + copied_pages, host.writes),
            host_reads: host.reads,
            trimmed_pages: host.trims,
            reclaimed_blocks,
            copied_per_erase: copied_for_each(erases),
            copied_per_merge: copied_for_each(switch_merges + partial_merges + full_merges),
            copied_per_reclaimed_block: copied_for_each(reclaimed_blocks),
            wear: WearSpread::of(flash.erases()),
            latency: LatencyFigures::of(latency),
        }
    }
}

/// Returns the ratio, or 0 if `of` is 0.
fn ratio(what: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { what as f64 / of as f64 }
}

impl WearSpread {
    fn of(erases: &[u32]) -> Self {
        let sum = erases.iter().map(|erases| u64::from(*erases)).sum();
        Self {
            least_erases: erases.iter().copied().min().unwrap_or(0),
            mean_erases: ratio(sum, erases.len() as u64),
            most_erases: erases.iter().copied().max().unwrap_or(0),
        }
    }
}

impl LatencyFigures {
    fn of(latency: &WriteLatency) -> Self {
        let part = |part| latency.quantile_ns(part) as f64 / 1000.0;
        Self {
            mean_us: latency.mean_ns() / 1000.0,
            p50_us: part(0.5),
            p99_us: part(0.99),
            p999_us: part(0.999),
            max_us: latency.max_ns() as f64 / 1000.0,
        }
    }
}
