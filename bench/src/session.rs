//! One run of an experiment: how it is run, how far it is, and what it has found.

use crate::Result;
use crate::machine::Machine;
use crate::options::{OnProgress, Options, Steps};
use crate::protection::load::Load;
use crate::report::{Chart, Claim, Measure, Report};

/// A run.
pub struct Session<'a> {
    /// How it is run.
    pub options: &'a Options,
    /// How far it is.
    pub steps: Steps<'a>,
    /// What was found.
    pub report: Report,
}

/// What it is a run of.
pub struct Subject<'a> {
    /// The experiment's name.
    pub experiment: &'static str,
    /// What the paper says of it.
    pub paper: &'a [Claim],
    /// Milliseconds of measuring, about.
    pub total_ms: u64,
}

impl<'a> Session<'a> {
    /// A run of which nothing is done.
    pub fn new(subject: &Subject<'_>, options: &'a Options, on_progress: OnProgress<'a>) -> Self {
        let report = Report {
            experiment: subject.experiment,
            machine: Machine::here(),
            rows: Vec::new(),
            paper: subject.paper.to_vec(),
            verdict: String::new(),
            charts: Vec::new(),
        };
        Self { options, steps: Steps::new(subject.total_ms, on_progress), report }
    }

    /// Tells what is done that takes time and measures nothing.
    pub fn tell(&mut self, what: &str) -> Result<()> {
        self.steps.step(what, 0)
    }

    /// Those of `loads` that are asked for.
    pub fn wanted(&self, loads: &[Load]) -> Vec<Load> {
        loads.iter().copied().filter(|load| self.options.wants(&load.name())).collect()
    }

    /// Draws `measure` of `cases`.
    pub fn chart(&mut self, title: &str, measure: Measure, cases: Vec<String>) {
        let level = (measure == Measure::Ratio).then_some(1.0);
        self.report.charts.push(Chart { title: title.into(), measure, cases, level });
    }

    /// The report, with its verdict.
    pub fn end(self, verdict: String) -> Report {
        self.report.end(verdict)
    }
}
