//! How often memory was written, as it is told.

use ferrite_memory::{Tally, Wear};
use serde::{Deserialize, Serialize};

/// How often the pool's memory was written since its owner opened it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WearReport {
    /// Bytes written.
    pub written_bytes: u64,
    /// Bytes that other processes may write to, which is not counted.
    pub shared_bytes: u64,
    /// Of pages of 4 KiB.
    pub pages: TallyReport,
    /// Of lines of 64 bytes, where they are counted.
    pub lines: Option<TallyReport>,
    /// The most written pages: first byte, and writes.
    pub top_pages: Vec<(u64, u32)>,
}

/// How writes spread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TallyReport {
    /// Units there are.
    pub units: u64,
    /// Units written at least once.
    pub written: u64,
    /// Writes in all.
    pub total: u64,
    /// Writes of the most written one.
    pub max: u32,
    /// Writes of each, if all were written evenly.
    pub mean: f64,
    /// Writes that half of the written units have at most, nine in ten, and 99 in 100.
    pub percentiles: [u32; 3],
    /// 0 where all are written evenly, 1 where one is and the others are not.
    pub gini: f64,
}

impl From<&Wear> for WearReport {
    fn from(wear: &Wear) -> Self {
        Self {
            written_bytes: wear.written_bytes,
            shared_bytes: wear.shared_bytes,
            pages: TallyReport::from(&wear.pages),
            lines: wear.lines.as_ref().map(TallyReport::from),
            top_pages: wear.top_pages.iter().map(|page| (page.at, page.writes)).collect(),
        }
    }
}

impl From<&Tally> for TallyReport {
    fn from(tally: &Tally) -> Self {
        Self {
            units: tally.units,
            written: tally.written,
            total: tally.total,
            max: tally.max,
            mean: tally.mean,
            percentiles: [tally.p50, tally.p90, tally.p99],
            gini: tally.gini,
        }
    }
}
