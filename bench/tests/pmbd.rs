//! The experiments after PMBD's remaining figures run whole, and what they report has every subject of every case.

use std::collections::BTreeSet;
use std::path::Path;

use ferrite_bench::{BenchOptions, BenchReport, CaseFilter, Length, find};
use ferrite_devnode as attach;
use ferrite_memory::{Guard, Scheme};

/// Runs `name` so short that its figures mean nothing; what all reports must be is checked here.
fn run(name: &str, only: Option<&str>) -> BenchReport {
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut last = 0;
    let report = find(name).expect("registered").run(&options(folder.path(), only), &mut |progress| {
        assert!(progress.done >= last && progress.done <= progress.total);
        last = progress.done;
        true
    });
    let report = report.unwrap_or_else(|why| panic!("{name}: {why}"));
    assert_eq!(report.experiment, name);
    assert!(
        !report.rows.is_empty() && !report.paper.is_empty() && !report.verdict.contains("NaN"),
        "{}",
        report.verdict
    );
    for row in &report.rows {
        let numbers = [row.value, row.ratio, row.low, row.high];
        assert!(numbers.iter().all(|number| number.is_finite() && *number > 0.0), "{row:?}");
        assert!(report.row(&row.case, &row.beside).is_some(), "{row:?} is beside nobody");
    }
    assert!(report.svg().expect("it can be drawn").contains(&report.rows[0].case));
    assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 0, "something else was left behind");
    report
}

fn options(folder: &Path, only: Option<&str>) -> BenchOptions {
    let only = CaseFilter::containing(only);
    BenchOptions { length: Length::Smoke, place: folder.into(), ferrite: None, threads_many: 3, only }
}

fn subjects<'a>(report: &'a BenchReport, case: &str) -> BTreeSet<&'a str> {
    let rows = report.rows.iter().filter(|row| row.case == case);
    rows.map(|row| row.subject.as_str()).collect()
}

fn cases(report: &BenchReport, begin: &str) -> BTreeSet<String> {
    report.rows.iter().filter(|row| row.case.starts_with(begin)).map(|row| row.case.clone()).collect()
}

/// Whether applications can run here; where they cannot, that the verdict says so.
fn applications_run(report: &BenchReport) -> bool {
    let why = attach::check().err();
    if let Some(why) = &why {
        println!("applications were not tested: {why}");
        assert!(report.verdict.contains("left out"), "{}", report.verdict);
    }
    why.is_none()
}

fn guarded(scheme: &str) -> String {
    let guard = if Guard::best() == Guard::None { "no guard" } else { Guard::best().name() };
    format!("{guard}, {scheme}")
}

#[test]
fn buffering_measures_every_step_of_the_paper() {
    let report = run("buffering", None);
    let cases = cases(&report, "WR");
    assert_eq!(cases.len(), 8, "{cases:?}");
    for case in cases {
        let found = subjects(&report, &case);
        let buffers =
            ["no guard", "pagetable (PT-Naive)", "one buffer", "one buffer, batching", "16 buffers, batching"];
        assert!(buffers.into_iter().all(|one| found.contains(one)), "{found:?}");
        assert_eq!(found.contains("keys"), Guard::Keys.ensure_available().is_ok());
    }
}

#[test]
fn write_schemes_measures_every_scheme() {
    let report = run("write-schemes", None);
    let cases = cases(&report, "WR");
    assert_eq!(cases.len(), 8, "{cases:?}");
    let schemes = [Scheme::Clflushopt, Scheme::Clwb].into_iter().filter(|scheme| scheme.ensure_available().is_ok());
    let guarded_writeback = usize::from(Guard::best() != Guard::None);
    for case in cases {
        assert_eq!(subjects(&report, &case).len(), 4 + guarded_writeback + schemes.clone().count(), "{case}");
    }
    if applications_run(&report) {
        let wanted = ["writeback", "nt", "clflush"].map(guarded);
        for case in ["untar", "tar"] {
            let found = subjects(&report, case);
            assert!(found.contains("no guard, writeback") && wanted.iter().all(|one| found.contains(one.as_str())));
        }
    }
}

#[test]
fn barriers_measures_every_scheme_alone_and_under_load() {
    let report = run("barriers", None);
    let of_table = ["nt", "clflush", "writeback", "writeback-all"].map(guarded);
    let cases = cases(&report, "WR RND 4K Q1, a barrier").into_iter().chain(cases(&report, "a barrier after"));
    let cases: Vec<String> = cases.collect();
    assert_eq!(cases.len(), 5, "{cases:?}");
    for case in cases {
        assert!(subjects(&report, &case).into_iter().eq(of_table.iter().map(String::as_str).collect::<BTreeSet<_>>()));
    }
    assert_eq!(subjects(&report, "RD SEQ 4K Q1").len(), 3);
    if applications_run(&report) {
        assert_eq!(subjects(&report, "tar").len(), 6);
    }
}

/// A row that is faster than it was asked to be is no emulation.
#[test]
fn pace_slows_what_it_is_told_to() {
    let report = run("pace", None);
    let slower: Vec<_> = report.rows.iter().filter(|row| row.subject == "achieved").collect();
    assert!(slower.len() > 40 && slower.iter().all(|row| row.ratio > 0.99), "{slower:?}");
    assert_eq!(subjects(&report, "RD RND 4K Q1").len(), 4);
    assert_eq!(subjects(&report, "WR SEQ 256K Q1").len(), 6);
    if applications_run(&report) {
        assert_eq!(subjects(&report, "untar").len(), 4);
    }
}

#[test]
fn media_has_every_disk_that_is_here() {
    let report = run("media", None);
    let found = subjects(&report, "RD RND 4K Q1");
    for name in ["ferrite", "SSD (X25-E, simulated)", "HDD (7200 rpm, simulated)"] {
        assert!(found.contains(name), "{name} is not in {found:?}");
    }
    let peers = ["nbdkit memory", "qemu-nbd tmpfs", "this machine's disk"];
    assert!(peers.into_iter().all(|name| found.contains(name) || report.verdict.contains(name)), "{}", report.verdict);
    if applications_run(&report) {
        assert!(subjects(&report, "tar").contains("loop on tmpfs"));
    }
}
