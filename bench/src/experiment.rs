//! The table of experiments.

use crate::options::{BenchOptions, ProgressWatch};
use crate::report::{BenchReport, PaperClaim};
use crate::session::BenchSession;
use crate::verdict::TableEntry;
use crate::{
    Result, alternatives, barriers, buffering, db_log, ftl, llc, media, objects, pace, protection, superpages,
    write_schemes, zones,
};

/// An experiment: how to measure, and how to read what was measured.
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// The subject matter, in one line.
    pub about: &'static str,
    /// Milliseconds that a full, a quick and a smoke run are expected to measure, by which progress is estimated.
    pub(crate) expected_ms: [u64; 3],
    /// Adds rows to the session's report.
    pub(crate) run: fn(&mut BenchSession<'_>) -> Result<()>,
    /// The lines of the verdict.
    pub(crate) verdict: &'static [TableEntry],
    /// The claims of the paper.
    pub(crate) paper: &'static [PaperClaim],
    /// The charts.
    pub(crate) charts: &'static [TableEntry],
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    protection::EXPERIMENT,
    buffering::EXPERIMENT,
    write_schemes::EXPERIMENT,
    barriers::EXPERIMENT,
    pace::EXPERIMENT,
    media::EXPERIMENT,
    objects::EXPERIMENT,
    db_log::EXPERIMENT,
    llc::EXPERIMENT,
    zones::EXPERIMENT,
    superpages::EXPERIMENT,
    alternatives::EXPERIMENT,
    ftl::EXPERIMENT,
];

/// The experiment called `name`.
pub fn find(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name)
}

impl Experiment {
    /// Runs the experiment. `on_progress` is called between slices and returns whether to continue.
    ///
    /// # Errors
    /// [`crate::Error::NoCase`] if the filter takes none of its cases, or the error that stopped it. A peer that this machine
    /// lacks is not an error: it has no rows, and the verdict says so.
    pub fn run(&self, options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
        let mut session = BenchSession::new(self, options, on_progress);
        (self.run)(&mut session)?;
        options.only.ensure_some()?;
        Ok(session.end())
    }
}

#[cfg(test)]
mod tests;
