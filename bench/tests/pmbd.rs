//! The experiments after PMBD's remaining figures run whole, and what they report has every subject of every case.

use std::collections::BTreeSet;

use ferrite_bench::BenchReport;
use ferrite_devnode as attach;
use ferrite_memory::{Guard, Scheme};

mod support;

use support::assert_drawn;

/// Runs `name`, all of whose rows have a value.
fn run(name: &str) -> BenchReport {
    let report = support::run(name, None, None);
    assert!(!report.rows.is_empty() && report.rows.iter().all(|row| row.value > 0.0 && row.low > 0.0), "{name}");
    report
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
    let report = run("buffering");
    assert_drawn(&report, &["(figures 5 and 6)"]);
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
    let report = run("write-schemes");
    assert_drawn(&report, &["(figure 9)"]);
    let cases = cases(&report, "WR");
    assert_eq!(cases.len(), 8, "{cases:?}");
    let schemes = [Scheme::Clflushopt, Scheme::Clwb].into_iter().filter(|scheme| scheme.ensure_available().is_ok());
    let guarded_writeback = usize::from(Guard::best() != Guard::None);
    for case in cases {
        assert_eq!(subjects(&report, &case).len(), 4 + guarded_writeback + schemes.clone().count(), "{case}");
    }
    if applications_run(&report) {
        assert_drawn(&report, &["(figure 10)"]);
        let wanted = ["writeback", "nt", "clflush"].map(guarded);
        for case in ["untar", "tar"] {
            let found = subjects(&report, case);
            assert!(found.contains("no guard, writeback") && wanted.iter().all(|one| found.contains(one.as_str())));
        }
    }
}

#[test]
fn barriers_measures_every_scheme_alone_and_under_load() {
    let report = run("barriers");
    assert_drawn(
        &report,
        &["Small writes", "Barriers alone", "Reads by the whole driver", "Writes by the whole driver"],
    );
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
    let report = run("pace");
    assert_drawn(&report, &["achieved beside asked", "Reads in process", "Writes in process"]);
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
    let report = run("media");
    assert_drawn(&report, &["Reads and writes beside ours"]);
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
