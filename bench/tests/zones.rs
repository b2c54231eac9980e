//! The experiments on the file system run whole, and report every case with every subject that this machine has.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ferrite_bench::BenchReport;
use ferrite_devnode as attach;

mod support;

/// Runs `name` so short that its figures mean nothing; what all reports must be is checked here.
fn run(name: &str, only: Option<&str>) -> BenchReport {
    run_rows(name, only, true)
}

/// The same of an experiment that may have nothing to run here.
fn run_rows(name: &str, only: Option<&str>, has_rows: bool) -> BenchReport {
    // What is left mounted is looked for by process.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let report = support::run(name, only, Some(env!("CARGO_BIN_EXE_ferrite-bench-worker").into()));
    assert!(report.rows.is_empty() != has_rows && !report.verdict.is_empty(), "{name} reports nothing");
    assert!(report.rows.iter().all(|row| row.value > 0.0 && row.low > 0.0), "{name}");
    assert!(!mounts_remain(), "something is still mounted");
    report
}

fn mounts_remain() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("there");
    mounts.contains(&format!("/run/ferrite-bench/{}-", std::process::id()))
}

fn subjects<'a>(report: &'a BenchReport, case: &str) -> BTreeSet<&'a str> {
    report.rows.iter().filter(|row| row.case == case).map(|row| row.subject.as_str()).collect()
}

/// Whether anything can be mounted here; where not, that the verdict says so.
fn mounts_run(report: &BenchReport) -> bool {
    let is_root = Path::new("/proc/self/status").exists() && attach::check().is_ok();
    assert!(is_root || report.verdict.contains("left out"), "{}", report.verdict);
    is_root
}

#[test]
fn zones_measures_every_verb_in_every_way_in() {
    let report = run("zones", None);
    support::assert_drawn(&report, &["Records of 64 bytes", "Records of 4 KiB by one thread", "Files by name"]);
    let cases: BTreeSet<&str> = report.rows.iter().map(|row| row.case.as_str()).collect();
    for verb in ["write", "re-write", "random write", "read", "re-read", "random read"] {
        for size in ["4K", "1024K", "4K, 3 threads"] {
            assert!(cases.contains(format!("{verb} {size}").as_str()), "{verb} {size} is not in {cases:?}");
        }
    }
    let by_name = ["create and close", "stat", "stat again", "unlink"];
    assert!(by_name.iter().chain(&["write 64 B"]).all(|case| cases.contains(case)), "{cases:?}");
    for case in cases.iter().filter(|case| **case != "mount of a pool") {
        let found = subjects(&report, case);
        assert!(found.contains("library"), "{case}: {found:?}");
        assert_eq!(found.contains("bare copy"), !by_name.contains(case), "{case}: {found:?}");
        if mounts_run(&report) {
            let others = ["mount", "mount --cached", "tmpfs", "tmpfs huge", "ramfs", "ext4 fdatasync"];
            assert!(others.into_iter().all(|one| found.contains(one)), "{case}: {found:?}");
            assert!(found.contains("ferrite run") || report.verdict.contains("ferrite run was left out"));
        }
    }
    if mounts_run(&report) {
        assert!(report.verdict.contains("bounds of 4 KiB writes beside tmpfs: the bare copy"), "{}", report.verdict);
        assert_eq!(subjects(&report, "mount of a pool").len(), 2);
    }
}

#[test]
fn superpages_measures_large_and_small_files_on_both_kinds_of_pages() {
    let report = run("superpages", None);
    support::assert_drawn(&report, &["records of 4 KiB (figures 5.5 and 5.6)", "(figures 5.9 and 5.10)"]);
    let cases: BTreeSet<&str> = report.rows.iter().map(|row| row.case.as_str()).collect();
    let mixed = ["small and large files, mostly written", "small and large files, mostly read"].map(String::from);
    let verbs = ["sequential write", "random write", "sequential read", "random read"];
    let large = verbs.into_iter().flat_map(|verb| ["4K", "2048K"].map(|size| format!("{verb} {size}")));
    for case in large.chain(mixed) {
        let found = subjects(&report, &case);
        let ours = ["superpages", "normal pages, huge mapping", "normal pages"];
        assert!(ours.into_iter().all(|one| found.contains(one)), "{case}: {found:?}");
        assert!(!mounts_run(&report) || ["tmpfs", "ramfs", "ext2 on a RAM disk"].iter().all(|one| found.contains(one)));
        let has_misses = cases.contains(format!("{case}, TLB misses").as_str());
        assert!(
            has_misses || report.verdict.contains("this machine counts no TLB misses"),
            "{case}: {}",
            report.verdict
        );
    }
    let space = report.row("space of a large file", "superpages").expect("it is told");
    assert!(space.ratio < 1.01, "superpages waste {}", space.ratio);
}

#[test]
fn alternatives_runs_applications_on_every_file_system() {
    let report = run_rows("alternatives", None, attach::check().is_ok());
    if !mounts_run(&report) {
        return;
    }
    let all = [
        "tmpfs",
        "ramfs",
        "ferrite",
        "ferrite --cached",
        "ext2 on disk",
        "ext3 on disk",
        "ext4 on disk",
        "xfs on disk",
    ];
    for case in ["untar", "tar"] {
        assert_eq!(subjects(&report, case), all.into(), "{case}");
    }
}
