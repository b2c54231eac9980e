//! Runs of experiments that are so short that their figures mean nothing.

use std::path::{Path, PathBuf};

use ferrite_bench::{BenchOptions, BenchReport, CaseFilter, Length, find};

/// The options of a smoke run in `folder`, of the cases that contain `only`.
pub fn options(folder: &Path, only: Option<&str>) -> BenchOptions {
    let only = CaseFilter::containing(only);
    BenchOptions { length: Length::Smoke, place: folder.into(), ferrite: None, threads_many: 3, only }
}

/// Runs `name`, with `ferrite` as the program of workers, and asserts what all reports promise: progress only grows, values
/// are finite and beside a row of their case, charts have rows, and the folder is empty afterwards.
pub fn run(name: &str, only: Option<&str>, ferrite: Option<PathBuf>) -> BenchReport {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let options = BenchOptions { ferrite, ..options(folder.path(), only) };
    let mut last = 0;
    let report = find(name).expect("registered").run(&options, &mut |progress| {
        assert!(progress.done >= last && progress.done <= progress.total, "{name}: {progress:?}");
        last = progress.done;
        true
    });
    let report = report.unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_eq!(report.experiment, name);
    assert!(!report.paper.is_empty() && !report.verdict.contains("NaN"), "{name}: {}", report.verdict);
    for row in &report.rows {
        let numbers = [row.value, row.ratio, row.low, row.high];
        assert!(numbers.iter().all(|number| number.is_finite() && *number >= 0.0), "{row:?}");
        assert!(report.row(&row.case, &row.beside).is_some(), "{row:?} is beside nobody");
    }
    for chart in &report.charts {
        let is_case = |case: &String| report.rows.iter().any(|row| row.case == *case);
        assert!(!chart.cases.is_empty() && chart.cases.iter().all(is_case), "{name}: {chart:?}");
    }
    report.svg().expect("it can be drawn");
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "something was left behind");
    report
}

/// Asserts that the report has a chart with each of `titles`.
pub fn assert_drawn(report: &BenchReport, titles: &[&str]) {
    let drawn: Vec<&str> = report.charts.iter().map(|chart| &*chart.title).collect();
    for title in titles {
        assert!(drawn.iter().any(|one| one.contains(title)), "{title} is not in {drawn:?}");
    }
}
