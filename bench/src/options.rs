//! The options and the progress of an experiment.

use std::path::PathBuf;

use crate::case_filter::CaseFilter;
use crate::{Error, Result};

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

/// Counts the steps of an experiment.
pub struct StepCount<'a> {
    on_progress: ProgressWatch<'a>,
    done: u64,
    total: u64,
}

impl<'a> StepCount<'a> {
    /// Progress of 0 in about `total_ms` milliseconds.
    pub fn new(total_ms: u64, on_progress: ProgressWatch<'a>) -> Self {
        Self { on_progress, done: 0, total: total_ms }
    }

    /// Reports that a step of about `step_ms` milliseconds is done.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the caller asked the experiment to end.
    pub fn step(&mut self, what: &str, step_ms: u64) -> Result<()> {
        self.done = (self.done + step_ms).min(self.total);
        let progress = BenchProgress { what, done: self.done, total: self.total };
        if (self.on_progress)(&progress) { Ok(()) } else { Err(Error::Interrupted) }
    }
}

#[cfg(test)]
mod tests;
