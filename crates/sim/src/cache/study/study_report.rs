//! The results of a study, in the shape of `--json`.

use serde::Serialize;

use super::{CacheModel, PolicyOutcome, StudyProgress};
use crate::cache::bank::{BankCounts, RegionTraffic};
use crate::cache::wear::Levelling;

/// nJ of a read of a line: 78 mW for 28 ns (table 1.1).
pub const READ_NJ: f64 = 0.078 * 28.0;

/// nJ of a writeback: 773 mW for 150 ns.
pub const WRITE_NJ: f64 = 0.773 * 150.0;

/// The results of all policies on a trace.
#[derive(Clone, Debug, Serialize)]
pub struct StudyReport {
    /// The trace, or the program.
    pub trace: String,
    /// The format in which the trace was read; of a program none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub form: Option<&'static str>,
    /// The reason why the study did not reach the end of the trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<&'static str>,
    /// Accesses of the program, if the source counts them.
    pub accesses: u64,
    /// Events of the last level.
    pub events: u64,
    /// The levelling of `lifetime_runs_levelled`.
    pub levelling: &'static str,
    /// The figures of each policy, LRU first.
    pub policies: Vec<PolicyFigures>,
    /// The bound of all policies.
    pub bound: BoundFigures,
}

/// The bound of all policies.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct BoundFigures {
    /// Fewest writebacks.
    pub writebacks: u64,
}

/// The figures of one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyFigures {
    /// The name of the policy.
    pub policy: String,
    /// Reads of lines that were not in the cache.
    pub read_misses: u64,
    /// Writes of lines that were not in the cache.
    pub write_misses: u64,
    /// Accesses to lines that were in the cache.
    pub hits: u64,
    /// Lines written to memory.
    pub writebacks: u64,
    /// Different lines written to memory.
    pub dirty_lines: u64,
    /// Writes of the line that was written most.
    pub max_line_writes: u64,
    /// Energy of the memory.
    pub energy_nj: f64,
    /// Runs of the program until the first line of memory fails, under the chosen levelling.
    pub lifetime_runs: f64,
    /// The ratio of `lifetime_runs` to LRU's.
    pub lifetime_gain: f64,
    /// Runs of the program until the first line of memory fails, without levelling.
    pub lifetime_runs_unlevelled: f64,
    /// The ratio of `lifetime_runs_unlevelled` to LRU's.
    pub lifetime_gain_unlevelled: f64,
    /// Runs of the program until the first line of memory fails, under [`StudyReport::levelling`].
    pub lifetime_runs_levelled: f64,
    /// The ratio of `lifetime_runs_levelled` to LRU's.
    pub lifetime_gain_levelled: f64,
    /// How much of the way from LRU's writebacks to the bound the policy covers, on a logarithmic scale: 0 is LRU, 1
    /// the bound.
    pub gap_closed: Option<f64>,
    /// Accesses and writebacks by region of the cache.
    #[serde(skip)]
    pub regions: [RegionTraffic; 16],
    /// How often each line was written to memory, of the lines that were written, by address.
    #[serde(skip)]
    pub writes: Vec<u64>,
}

impl PolicyFigures {
    /// Returns all misses.
    pub fn misses(&self) -> u64 {
        self.read_misses + self.write_misses
    }

    /// Returns how often a dirty line is written, on average (figure 2.1).
    pub fn rewrites(&self) -> f64 {
        self.writebacks as f64 / self.dirty_lines.max(1) as f64
    }
}

impl StudyReport {
    pub(super) fn of(
        model: &CacheModel,
        trace: &str,
        seen: StudyProgress,
        outcomes: Vec<PolicyOutcome>,
        least: u64,
    ) -> Self {
        let figures = |(choice, PolicyOutcome { counts, writes }): (&super::PolicyChoice, PolicyOutcome)| {
            let BankCounts { read_misses, write_misses, hits, writebacks, regions } = counts;
            let [unlevelled, levelled] =
                [model.wear.unlevelled(), model.wear.levelled()].map(|wear| wear.runs(&writes));
            let fetched = read_misses + if model.fetch_on_write_miss { write_misses } else { 0 };
            PolicyFigures {
                policy: choice.name(model.llc.ways),
                read_misses,
                write_misses,
                hits,
                writebacks,
                dirty_lines: writes.len() as u64,
                max_line_writes: writes.iter().copied().max().unwrap_or(0),
                energy_nj: fetched as f64 * READ_NJ + writebacks as f64 * WRITE_NJ,
                lifetime_runs: if model.wear.levelling == Levelling::None { unlevelled } else { levelled },
                lifetime_gain: 1.0,
                lifetime_runs_unlevelled: unlevelled,
                lifetime_gain_unlevelled: 1.0,
                lifetime_runs_levelled: levelled,
                lifetime_gain_levelled: 1.0,
                gap_closed: None,
                regions,
                writes,
            }
        };
        let mut policies: Vec<PolicyFigures> = model.choices.iter().zip(outcomes).map(figures).collect();
        let lru = policies.iter().find(|one| one.policy == "lru").expect("LRU is always there");
        let (runs, lru_writebacks) = (lru.lifetime_runs, lru.writebacks);
        let (unlevelled, levelled) = (lru.lifetime_runs_unlevelled, lru.lifetime_runs_levelled);
        for one in &mut policies {
            one.lifetime_gain = gain(one.lifetime_runs, runs);
            one.lifetime_gain_unlevelled = gain(one.lifetime_runs_unlevelled, unlevelled);
            one.lifetime_gain_levelled = gain(one.lifetime_runs_levelled, levelled);
            one.gap_closed = closed(lru_writebacks, one.writebacks, least);
        }
        let StudyProgress { events, accesses } = seen;
        let bound = BoundFigures { writebacks: least };
        let levelling = model.wear.levelled().levelling.name();
        Self { trace: trace.into(), form: None, stopped: None, accesses, events, levelling, policies, bound }
    }

    /// Returns the figures of a policy.
    pub fn policy(&self, name: &str) -> Option<&PolicyFigures> {
        self.policies.iter().find(|one| one.policy == name)
    }
}

/// Returns the ratio of a lifetime to LRU's: 1 for a program that writes nothing, which lives as long under any policy.
fn gain(runs: f64, of_lru: f64) -> f64 {
    let gain = runs / of_lru;
    if gain.is_nan() { 1.0 } else { gain }
}

/// Returns the covered part of the way to the bound, or `None` if LRU is the bound already.
fn closed(lru: u64, own: u64, least: u64) -> Option<f64> {
    let log = |over: u64, under: u64| (over as f64 / under as f64).ln();
    (lru > least && least > 0).then(|| log(lru, own) / log(lru, least))
}
