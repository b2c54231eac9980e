//! How an experiment is run, and how it tells how far it is.

use std::path::PathBuf;

use crate::only::Only;
use crate::{Error, Result};

/// How long an experiment may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// As long as panic_guard medians need: a few minutes.
    Full,
    /// About a minute.
    Quick,
    /// Only to see that everything runs: the figures mean nothing.
    Smoke,
}

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long it may take.
    pub length: Length,
    /// Folder in memory (tmpfs) for pools and sockets; what is made there is removed.
    pub place: PathBuf,
    /// The `ferrite` program; without it what needs a process of its own is served in this one or left out.
    pub ferrite: Option<PathBuf>,
    /// Threads of the cases with many requests at once.
    pub threads_many: usize,
    /// The cases to measure.
    pub only: Only,
}

impl Options {
    /// Whether `case` is to be measured.
    pub fn wants(&self, case: &str) -> bool {
        self.only.takes(case)
    }
}

/// How far an experiment is.
#[derive(Clone, Debug)]
pub struct Progress<'a> {
    /// What is being measured.
    pub what: &'a str,
    /// Milliseconds of measuring that are done, about.
    pub done: u64,
    /// Of how many.
    pub total: u64,
}

/// Told how far an experiment is; answers whether to go on.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress<'_>) -> bool;

/// Counts the steps of an experiment.
pub struct Steps<'a> {
    on_progress: OnProgress<'a>,
    done: u64,
    total: u64,
}

impl<'a> Steps<'a> {
    /// None done of about `total_ms`.
    pub fn new(total_ms: u64, on_progress: OnProgress<'a>) -> Self {
        Self { on_progress, done: 0, total: total_ms }
    }

    /// Tells that a step of about `step_ms` is done.
    ///
    /// # Errors
    /// [`Error::Interrupted`] where whoever watches wants the end.
    pub fn step(&mut self, what: &str, step_ms: u64) -> Result<()> {
        self.done = (self.done + step_ms).min(self.total);
        let progress = Progress { what, done: self.done, total: self.total };
        if (self.on_progress)(&progress) { Ok(()) } else { Err(Error::Interrupted) }
    }
}
