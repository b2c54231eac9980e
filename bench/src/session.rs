//! An experiment, and one run of it: its options, its progress and its report.

use crate::machine::MachineState;
use crate::options::{BenchOptions, BenchProgress, ProgressWatch};
use crate::report::{BenchReport, PaperClaim, rows};
use crate::rounds::{self, BenchSubject, Series};
use crate::verdict::{self, TableEntry};
use crate::{Error, Result};

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

impl Experiment {
    /// Runs the experiment. `on_progress` is called between slices and returns whether to continue.
    ///
    /// # Errors
    /// [`Error::NoCase`] if the filter takes none of its cases, or the error that stopped it. A peer that this machine
    /// lacks is not an error: it has no rows, and the verdict says so.
    pub fn run(&self, options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
        let mut session = BenchSession::new(self, options, on_progress);
        (self.run)(&mut session)?;
        options.only.ensure_some()?;
        Ok(session.end())
    }
}

/// A run of an experiment.
pub struct BenchSession<'a> {
    /// The options of the run.
    pub options: &'a BenchOptions,
    /// The report so far.
    pub report: BenchReport,
    /// Lines of the verdict that no table gives.
    pub findings: Vec<String>,
    /// Notes for the end of the verdict: the subjects that were left out, and why.
    pub notes: Vec<String>,
    experiment: &'a Experiment,
    on_progress: ProgressWatch<'a>,
    done_ms: u64,
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
    /// A run of `experiment` with an empty report.
    pub fn new(experiment: &'a Experiment, options: &'a BenchOptions, on_progress: ProgressWatch<'a>) -> Self {
        let report = BenchReport {
            experiment: experiment.name,
            machine: MachineState::here(),
            rows: Vec::new(),
            paper: experiment.paper.to_vec(),
            verdict: String::new(),
            charts: Vec::new(),
        };
        let (findings, notes) = (Vec::new(), Vec::new());
        Self { options, report, findings, notes, experiment, on_progress, done_ms: 0 }
    }

    /// Reports work that takes time and measures nothing.
    pub fn announce(&mut self, what: &str) -> Result<()> {
        self.step(what, 0)
    }

    /// Reports that a slice of about `ms` milliseconds is measured.
    ///
    /// # Errors
    /// [`Error::Interrupted`] if the caller asked the experiment to end.
    pub fn step(&mut self, what: &str, ms: u64) -> Result<()> {
        let total = self.options.length.pick(self.experiment.expected_ms);
        self.done_ms = (self.done_ms + ms).min(total);
        let progress = BenchProgress { what, done: self.done_ms, total };
        if (self.on_progress)(&progress) { Ok(()) } else { Err(Error::Interrupted) }
    }

    /// Notes that `what` is not in the report, and why.
    pub fn left_out(&mut self, what: &str, why: impl std::fmt::Display) {
        self.notes.push(format!("{what} was left out: {why}"));
    }

    /// Measures the subjects in turn, without adding rows to the report.
    pub fn rounds(&mut self, race: &Race<'_>, mut subjects: Vec<BenchSubject<'_>>) -> Result<Vec<Series>> {
        rounds::run(&mut subjects, race.rounds, &mut || self.step(race.case, race.slice_ms))
    }

    /// Measures the subjects in turn and adds a row for each of them.
    pub fn race(&mut self, race: &Race<'_>, subjects: Vec<BenchSubject<'_>>) -> Result<Vec<Series>> {
        let series = self.rounds(race, subjects)?;
        let beside = series.iter().find(|one| one.name == race.beside).unwrap_or(&series[0]);
        self.report.rows.extend(rows(race.case, race.unit, &series, beside));
        Ok(series)
    }

    /// The cases that the options ask for; `name` returns the name of a case.
    pub fn wanted<T, N: AsRef<str>>(&self, cases: impl IntoIterator<Item = T>, name: impl Fn(&T) -> N) -> Vec<T> {
        cases.into_iter().filter(|case| self.options.wants(name(case).as_ref())).collect()
    }

    /// The report. Its verdict is the lines of the experiment's table, the findings, the notes, then complaints about the
    /// machine.
    pub fn end(self) -> BenchReport {
        let mut parts = verdict::lines(&self.report, self.experiment.verdict);
        parts.extend(self.findings);
        parts.extend(self.notes);
        parts.extend(self.report.machine.complaints());
        let charts = verdict::charts(&self.report, self.experiment.charts);
        let machine = self.report.machine.at_end();
        BenchReport { machine, verdict: parts.join("; "), charts, ..self.report }
    }
}

#[cfg(test)]
mod tests;
