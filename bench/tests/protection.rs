//! The experiment runs whole, and what it reports has every subject of every case.

use std::collections::BTreeSet;
use std::path::Path;

use ferrite_bench::{BenchOptions, CaseFilter, Error, Length, find};
use ferrite_memory::Guard;

fn options(folder: &Path) -> BenchOptions {
    BenchOptions {
        length: Length::Smoke,
        place: folder.into(),
        ferrite: None,
        threads_many: 3,
        only: CaseFilter::default(),
    }
}

fn names<'a>(of: impl Iterator<Item = &'a str>) -> BTreeSet<&'a str> {
    of.collect()
}

#[test]
fn every_case_has_every_subject_and_a_finite_ratio() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut last = 0;
    let experiment = find("protection").expect("registered");
    let report = experiment.run(&options(folder.path()), &mut |progress| {
        assert!(progress.done >= last && progress.done <= progress.total);
        last = progress.done;
        true
    });
    let report = report.expect("it runs");
    let keyed = usize::from(Guard::Keys.ensure_available().is_ok());
    let guards = Guard::ALL.into_iter().filter(|(_, guard)| guard.ensure_available().is_ok()).count();
    let in_process = report.rows.iter().filter(|row| row.unit == "MB/s" && !row.case.starts_with("NBD"));
    let cases = names(in_process.map(|row| row.case.as_str()));
    assert_eq!(cases.len(), 16, "{cases:?}");
    for case in cases {
        let rows = report.rows.iter().filter(|row| row.case == case);
        assert_eq!(names(rows.map(|row| row.subject.as_str())).len(), guards + 1 + keyed, "{case}");
    }
    let served = report.rows.iter().filter(|row| row.case.starts_with("NBD") && row.subject == "ferrite");
    assert_eq!(served.count(), 8);
    let bound = report.rows.iter().filter(|row| row.subject == "(copies nothing)");
    assert_eq!(bound.count(), 8);
    for row in &report.rows {
        let numbers = [row.value, row.ratio, row.low, row.high];
        assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{row:?}");
        assert!(report.row(&row.case, &row.beside).is_some(), "{row:?} is beside nobody");
    }
    let drawn = report.svg().expect("it can be drawn");
    assert!(report.rows.iter().filter(|row| row.unit == "MB/s").all(|row| drawn.contains(&row.case)));
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "something else was left behind");
}

#[test]
fn only_the_cases_that_are_asked_for_are_measured() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let options = BenchOptions { only: CaseFilter::containing(Some("WR SEQ 4K Q1")), ..options(folder.path()) };
    let report = find("protection").expect("registered").run(&options, &mut |_| true).expect("it runs");
    assert_eq!(names(report.rows.iter().map(|row| row.case.as_str())), BTreeSet::from(["WR SEQ 4K Q1"]));
    assert!(!report.verdict.contains("NaN"), "{}", report.verdict);
}

#[test]
fn asked_to_end_it_ends_and_leaves_nothing() {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut steps = 0;
    let result = find("protection").expect("registered").run(&options(folder.path()), &mut |_| {
        steps += 1;
        steps < 5
    });
    assert!(matches!(result, Err(Error::Interrupted)), "{:?}", result.map(|report| report.verdict));
    assert_eq!((steps, std::fs::read_dir(folder.path()).expect("there").count()), (5, 0));
}

#[test]
fn an_unknown_experiment_is_not_found() {
    assert!(find("proetction").is_none());
}

/// A text that is in the name of no case is wrong usage, told with the cases there are, in every experiment.
#[test]
fn cases_that_are_none_are_told_with_those_there_are() {
    for experiment in ferrite_bench::EXPERIMENTS {
        let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
        let options = BenchOptions { only: CaseFilter::containing(Some("no such case")), ..options(folder.path()) };
        let said = experiment.run(&options, &mut |_| true).map(|report| report.table());
        assert!(matches!(said, Err(Error::NoCase { .. })), "{}: {said:?}", experiment.name);
    }
}
