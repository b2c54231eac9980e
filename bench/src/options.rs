//! The options and the progress of an experiment.

use std::path::PathBuf;

use crate::case_filter::CaseFilter;

/// The length of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A few minutes, which steady medians need.
    Full,
    /// About a minute.
    Quick,
    /// Only to see that everything runs: the figures mean nothing.
    Smoke,
}

impl Length {
    /// Returns the value for this length, of the values for a full, a quick and a smoke run.
    pub(crate) fn pick<T>(self, [full, quick, smoke]: [T; 3]) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
            Self::Smoke => smoke,
        }
    }
}

/// The options of an experiment.
#[derive(Clone, Debug)]
pub struct BenchOptions {
    /// The length.
    pub length: Length,
    /// The folder in memory (tmpfs) for pools and sockets, which are removed afterwards.
    pub place: PathBuf,
    /// The `ferrite` program. Without it, subjects that need it are served by this process or left out.
    pub ferrite: Option<PathBuf>,
    /// Threads of the cases with many requests at once.
    pub threads_many: usize,
    /// The cases to measure.
    pub only: CaseFilter,
}

impl BenchOptions {
    /// Whether the filter takes `case`.
    pub fn wants(&self, case: &str) -> bool {
        self.only.takes(case)
    }
}

/// The progress of an experiment.
#[derive(Clone, Debug)]
pub struct BenchProgress<'a> {
    /// The case, or the preparation, that is running.
    pub what: &'a str,
    /// Milliseconds of measuring that are done, by estimate.
    pub done: u64,
    /// Milliseconds of measuring in all, by estimate.
    pub total: u64,
}

/// A function that receives the progress and returns whether to continue.
pub type ProgressWatch<'a> = &'a mut dyn FnMut(&BenchProgress<'_>) -> bool;

#[cfg(test)]
mod tests;
