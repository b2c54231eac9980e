//! The table of experiments.

use crate::options::{BenchOptions, ProgressWatch};
use crate::report::BenchReport;
use crate::{
    Result, alternatives, barriers, buffering, db_log, ftl, llc, media, objects, pace, protection, superpages,
    write_schemes, zones,
};

/// An experiment.
pub struct Experiment {
    /// The name on the command line.
    pub name: &'static str,
    /// The subject matter, in one line.
    pub about: &'static str,
    run: ExperimentRun,
}

type ExperimentRun = fn(&BenchOptions, ProgressWatch<'_>) -> Result<BenchReport>;

const fn experiment(name: &'static str, run: ExperimentRun, about: &'static str) -> Experiment {
    Experiment { name, about, run }
}

/// Every experiment.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment(
        "protection",
        protection::run,
        "what guards cost beside the bare copy (PMBD, figures 3 and 8), NBD beside its peers, recovery",
    ),
    experiment("buffering", buffering::run, "buffers in DRAM before a guard by page table (PMBD, figures 5 and 6)"),
    experiment(
        "write-schemes",
        write_schemes::run,
        "ways of storing, in process and under applications (PMBD, figures 9 and 10)",
    ),
    experiment(
        "barriers",
        barriers::run,
        "ordering, in process and under applications (PMBD, figures 11 and 12, table III)",
    ),
    experiment(
        "pace",
        pace::run,
        "slower media, in process and under a database (PMBD, figure 15), and how exactly they are emulated",
    ),
    experiment(
        "media",
        media::run,
        "the protected disk beside disks of memory, this machine's disk, an SSD and a hard disk (PMBD, figure 14)",
    ),
    experiment(
        "objects",
        objects::run,
        "what an object's update costs beside LMDB, libpmemobj and disks (flash-backed DRAM, figure 5, table 1)",
    ),
    experiment(
        "db-log",
        db_log::run,
        "commits of SQLite, Redis and PostgreSQL, strict and relaxed, beside disks (flash-backed DRAM, table 1, figure 7)",
    ),
    experiment(
        "llc",
        llc::run,
        "policies of the last-level cache before a memory that wears, on real programs (chapter 2, figures 2.1 to 2.14)",
    ),
    experiment(
        "zones",
        zones::run,
        "files by records, by threads and by name, in every way in, beside memory's file systems (ZonFS, figures 5 and 6)",
    ),
    experiment(
        "superpages",
        superpages::run,
        "large and small files on superpages and on normal pages, and TLB misses (chapter 5, figures 5.3 to 5.10)",
    ),
    experiment(
        "alternatives",
        alternatives::run,
        "applications on our file system, on disk file systems on our disk, and on memory's (PMBD, figure 13)",
    ),
    experiment(
        "ftl",
        ftl::run,
        "erases and copies of a flash drive under file systems, page-level and FAST (nvm-storage-hierarchy, figures 3.11 and 3.12)",
    ),
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
        let report = (self.run)(options, on_progress)?;
        options.only.ensure_some()?;
        Ok(report)
    }
}

#[cfg(test)]
mod tests;
