//! Reports made by hand, for the tests of every experiment.

use crate::machine::MachineState;
use crate::report::{BenchReport, ReportRow, rows};
use crate::rounds::Series;
use crate::verdict::{VerdictEntry, lines};

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
pub fn verdict(table: &[VerdictEntry], rows: Vec<ReportRow>) -> Vec<String> {
    lines(&report(rows), table)
}
