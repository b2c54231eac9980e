//! One run of an experiment: its options, its progress and its report.

use crate::Result;
use crate::machine::MachineState;
use crate::options::{BenchOptions, ProgressWatch, StepCount};
use crate::protection::copy_load::CopyLoad;
use crate::report::{BenchReport, Chart, ChartMeasure, PaperClaim, rows};
use crate::rounds::{self, BenchSubject, Series};
use crate::verdict::{self, VerdictEntry};

/// A run of an experiment.
pub struct BenchSession<'a> {
    /// The options of the run.
    pub options: &'a BenchOptions,
    /// The report so far.
    pub report: BenchReport,
    /// Notes for the end of the verdict: the subjects that were left out, and why.
    pub notes: Vec<String>,
    steps: StepCount<'a>,
}

/// The parameters of measuring one case.
#[derive(Clone, Copy)]
pub struct Race<'a> {
    /// The case.
    pub case: &'a str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Rounds that are counted.
    pub rounds: usize,
    /// Expected milliseconds of a slice, by which the progress is estimated.
    pub slice_ms: u64,
    /// The subject that all are compared with; the first subject if this one does not take part.
    pub beside: &'a str,
}

impl<'a> BenchSession<'a> {
    /// A run of `experiment` with an empty report, expected to measure for `total_ms` milliseconds.
    pub fn new(
        experiment: &'static str,
        paper: &[PaperClaim],
        total_ms: u64,
        options: &'a BenchOptions,
        on_progress: ProgressWatch<'a>,
    ) -> Self {
        let report = BenchReport {
            experiment,
            machine: MachineState::here(),
            rows: Vec::new(),
            paper: paper.to_vec(),
            verdict: String::new(),
            charts: Vec::new(),
        };
        Self { options, report, notes: Vec::new(), steps: StepCount::new(total_ms, on_progress) }
    }

    /// Reports work that takes time and measures nothing.
    pub fn announce(&mut self, what: &str) -> Result<()> {
        self.step(what, 0)
    }

    /// Reports that a slice of about `ms` milliseconds is measured.
    pub fn step(&mut self, what: &str, ms: u64) -> Result<()> {
        self.steps.step(what, ms)
    }

    /// Notes that `what` is not in the report, and why.
    pub fn left_out(&mut self, what: &str, why: impl std::fmt::Display) {
        self.notes.push(format!("{what} was left out: {why}"));
    }

    /// Measures the subjects in turn, without adding rows to the report.
    pub fn rounds(&mut self, race: &Race<'_>, mut subjects: Vec<BenchSubject<'_>>) -> Result<Vec<Series>> {
        rounds::run(&mut subjects, race.rounds, &mut || self.steps.step(race.case, race.slice_ms))
    }

    /// Measures the subjects in turn and adds a row for each of them.
    pub fn race(&mut self, race: &Race<'_>, subjects: Vec<BenchSubject<'_>>) -> Result<Vec<Series>> {
        let series = self.rounds(race, subjects)?;
        let beside = series.iter().find(|one| one.name == race.beside).unwrap_or(&series[0]);
        self.report.rows.extend(rows(race.case, race.unit, &series, beside));
        Ok(series)
    }

    /// The loads of `loads` that the options ask for.
    pub fn wanted(&self, loads: &[CopyLoad]) -> Vec<CopyLoad> {
        loads.iter().copied().filter(|load| self.options.wants(&load.name())).collect()
    }

    /// Adds a chart of `measure` over `cases`.
    pub fn chart(&mut self, title: &str, measure: ChartMeasure, cases: Vec<String>) {
        let level = (measure == ChartMeasure::Ratio).then_some(1.0);
        self.report.charts.push(Chart { title: title.into(), measure, cases, level });
    }

    /// The report. Its verdict is the lines of `table`, then `more`, then the notes, then complaints about the machine.
    pub fn end(self, table: &[VerdictEntry], more: impl IntoIterator<Item = String>) -> BenchReport {
        let mut parts = verdict::lines(&self.report, table);
        parts.extend(more);
        parts.extend(self.notes);
        parts.extend(self.report.machine.complaints());
        self.report.end(parts.join("; "))
    }
}

#[cfg(test)]
mod tests;
