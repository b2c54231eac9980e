//! The experiments on guests run whole, and report every case with every subject.

use std::collections::BTreeSet;
use std::path::PathBuf;

use ferrite_bench::BenchReport;

mod support;

fn subjects<'a>(report: &'a BenchReport, case: &str) -> BTreeSet<&'a str> {
    report.rows.iter().filter(|row| row.case == case).map(|row| row.subject.as_str()).collect()
}

/// Runs `name`; returns `None` if this machine has no regions.
fn run(name: &str) -> Option<BenchReport> {
    let report = support::run(name, None, Some(PathBuf::from(env!("CARGO_BIN_EXE_ferrite-bench-worker"))));
    match ferrite_memory::TrapRegion::new(4096) {
        Ok(_) => Some(report),
        Err(why) => {
            println!("guests were not tested: {why}");
            assert!(report.verdict.contains("left out"), "{}", report.verdict);
            None
        }
    }
}

#[test]
fn guest_measures_every_load_beside_all_memory() {
    let Some(report) = run("guest") else { return };
    let zipf = subjects(&report, "file server, zipf 0.99");
    assert_eq!(zipf, ["all memory", "hv 20 %", "hv 40 %", "pv, all memory", "pv 20 %"].into());
    for load in ["file server", "web server", "varmail", "dbench"] {
        let found = subjects(&report, &format!("{load}, uniform"));
        assert!(["all memory", "hv 20 %", "pv, all memory", "pv 20 %"].iter().all(|name| found.contains(name)));
        assert_eq!(found.contains("mmap, msync"), load != "web server", "{load}");
        let case = format!("{load}, uniform: disk bytes a byte stored");
        assert_eq!(subjects(&report, &case), ["hv 20 %"].into(), "{case}");
    }
    for case in ["PCM: file server", "PCM: varmail"] {
        assert_eq!(subjects(&report, case), ["all memory", "hv 70 %", "pv 50 %"].into(), "{case}");
    }
    for case in ["fwr, within P", "fwr, over V"] {
        assert_eq!(subjects(&report, case), ["bare mapping", "hv"].into(), "{case}");
    }
    let with_and_without = [
        ("batching: file server", ["hv 20 %, a flush for each run", "hv 20 %"]),
        ("lazy reallocation: varmail on PCM", ["hv 30 %, no copies", "hv 30 %"]),
    ];
    for (case, both) in with_and_without {
        assert_eq!(subjects(&report, case), both.into(), "{case}");
    }
    let durable = ["bare mapping", "mmap, msync", "pv: persist, barrier", "hv: store, fence"];
    assert_eq!(subjects(&report, "4 KiB made durable"), durable.into());
    assert_eq!(subjects(&report, "open behind a kill"), ["hv", "limit of 50 ms"].into());
    support::assert_drawn(&report, &["Figure 5", "Figure 6", "Figure 7", "Figure 8 (a)", "Figure 8 (b)"]);
}

#[test]
fn consolidation_measures_each_guest_of_each_tile() {
    let Some(report) = run("consolidation") else { return };
    for guest in ["file server 1", "file server 2", "varmail", "web server", "dbench"] {
        assert_eq!(subjects(&report, &format!("tile: {guest}")), ["all memory", "50 %"].into(), "{guest}");
    }
    assert_eq!(subjects(&report, "pages stored to, part of the tile").len(), 5);
    support::assert_drawn(&report, &["Figure 9", "Figure 10"]);
}

#[test]
fn recovery_loses_no_step_by_a_kill_and_goes_on() {
    let Some(report) = run("recovery") else { return };
    assert!(report.verdict.contains("and the next process found step"), "{}", report.verdict);
    assert_eq!(subjects(&report, "until the program runs").len(), 2);
    let behind = report.rows.iter().filter(|row| row.case.starts_with("+"));
    assert!(behind.count() >= 4);
    support::assert_drawn(&report, &["Figure 11"]);
}
