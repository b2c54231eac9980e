//! Reports made by hand, for the tests of every experiment.

use crate::machine::MachineState;
use crate::options::{BenchOptions, Length};
use crate::report::{BenchReport, PaperClaim, ReportRow, rows};
use crate::rounds::Series;
use crate::session::Experiment;
use crate::verdict::{TableEntry, lines};

/// Rows of `case`, each subject beside the first one.
pub fn case(case: &str, unit: &'static str, values: &[(&str, f64)]) -> Vec<ReportRow> {
    let series = |(name, value): &(&str, f64)| Series { name: (*name).into(), values: vec![*value] };
    let series: Vec<Series> = values.iter().map(series).collect();
    rows(case, unit, &series, &series[0])
}

/// A report of these rows.
pub fn report(rows: Vec<ReportRow>) -> BenchReport {
    let (machine, verdict) = (MachineState::here(), String::new());
    BenchReport { experiment: "by hand", machine, rows, paper: vec![], verdict, charts: vec![] }
}

/// The lines that `table` has for these rows.
pub fn verdict(table: &[TableEntry], rows: Vec<ReportRow>) -> Vec<String> {
    lines(&report(rows), table)
}

/// The options of a smoke run of the cases that contain `only`.
pub fn options(only: Option<&str>) -> BenchOptions {
    let only = crate::CaseFilter::containing(only);
    BenchOptions { length: Length::Smoke, place: "/dev/shm".into(), ferrite: None, threads_many: 2, only }
}

/// An experiment of 100 ms that measures nothing, with the verdict `table`.
pub fn experiment(table: &'static [TableEntry]) -> Experiment {
    let paper = &[PaperClaim { place: "figure 1", what: "one beside the other", ratio: 2.0 }];
    Experiment {
        name: "x",
        about: "nothing",
        expected_ms: [100; 3],
        run: |_| Ok(()),
        verdict: table,
        paper,
        charts: &[],
    }
}
