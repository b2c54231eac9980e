//! The verdict of hand-made reports.

use super::*;
use crate::tests::{case, report, verdict};
use crate::verdict::charts;

/// If a mount that keeps nothing is no faster, the rest of the way to tmpfs is the kernel's.
#[test]
fn the_line_tells_what_the_kernel_allows_of_a_cached_mount() {
    let rates = [(TMPFS, 100.0), (HOLLOW, 80.0), (CACHED, 76.0), (EXT4_CACHED, 85.0)];
    let rows = ["write 4K", "read 4K"].into_iter().flat_map(|name| case(name, "MB/s", &rates)).collect();
    let lines = verdict(EXPERIMENT.verdict, rows);
    let bounds = "beside tmpfs: a cached mount whose server keeps nothing 0.80, ext4 on a disk of memory 0.85";
    for line in [
        format!("bounds of 4 KiB writes {bounds}"),
        format!("bounds of 4 KiB reads {bounds}"),
        "mount --cached beside its bound: writes 0.95, reads 0.95".into(),
    ] {
        assert!(lines.contains(&line), "{line} is not in {lines:#?}");
    }
    assert_eq!(verdict(EXPERIMENT.verdict, Vec::new()), [""; 0]);
}

/// A quarter of the bare copy on a machine that allows four times tmpfs is ours to mend, and the verdict shows that.
#[test]
fn the_line_tells_what_is_ours_and_what_is_the_machines() {
    const FIRST: &str = "write 4K";
    let rows_of = |name: &str| {
        let ours = if name == FIRST { 100.0 } else { if name.contains("read") { 360.0 } else { 300.0 } };
        let mut rates = vec![(TMPFS, 100.0), (TMPFS_HUGE, 200.0), (BARE, 400.0), (LIBRARY, ours)];
        rates.extend((name == FIRST).then_some((BARE_APPEND, 250.0)));
        case(name, "MB/s", &rates)
    };
    let cases = [FIRST, "re-write 4K", "random write 4K", "read 4K", "re-read 4K", "random read 4K"];
    let lines = verdict(EXPERIMENT.verdict, cases.into_iter().flat_map(rows_of).collect());
    for line in [
        "library beside its bounds: first writes 0.40, later writes 0.75, reads 0.90",
        "bounds of 4 KiB writes beside tmpfs: the bare copy 4.0, the bare copy beside huge pages 2.00",
        "bound of first writes, where a size with a fence of its own follows each copy, beside tmpfs: bare append 2.50, \
         bare append beside huge pages 1.25",
    ] {
        assert!(lines.iter().any(|one| one == line), "{line} is not in {lines:#?}");
    }
}

#[test]
fn appends_are_timed_and_names_are_counted_as_speed() {
    let mut rows = case("write 64 B", "MB/s", &[(TMPFS, 10.0), (LIBRARY, 128.0), (RUN, 64.0)]);
    rows.extend(case("create and close", "us", &[(TMPFS, 4.0), (RAMFS, 3.0), (LIBRARY, 1.5)]));
    rows.extend(case(many_files::CASE, "ms", &[(many_files::EMPTY, 2.0), (many_files::FULL, 4.0)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "appends of 64 bytes: library 0.50 us, ferrite run 1.00 us",
            "files by name, times as fast as ramfs: create and close 2.00",
            "mount of a pool with a million files: 4.0 ms",
        ]
    );
}

#[test]
fn cases_are_named_by_verb_record_and_threads() {
    let name = |verb, record_bytes, threads| RecordCase { verb: RecordVerb::ALL[verb], record_bytes, threads }.name();
    assert_eq!(
        [name(0, 64, 1), name(1, 1 << 20, 1), name(5, 4096, 20)],
        ["write 64 B", "re-write 1024K", "random read 4K, 20 threads"]
    );
}

/// A case that no chart's pattern matches would be measured and never drawn.
#[test]
fn every_case_of_a_full_run_is_drawn_once() {
    let plan = RecordPlan::of(Length::Full);
    let records =
        plan.records.iter().map(|bytes| (*bytes, 1)).chain(plan.threads.iter().map(|threads| (4096, *threads)));
    let all = records.flat_map(|(record_bytes, threads)| {
        RecordVerb::ALL.map(|verb| RecordCase { verb, record_bytes, threads }.name())
    });
    let mut rows: Vec<_> = all.flat_map(|name| case(&name, "MB/s", &[(TMPFS, 1.0)])).collect();
    rows.extend(case("write 64 B", "MB/s", &[(TMPFS, 1.0)]));
    rows.extend(NameVerb::ALL.iter().flat_map(|(name, _)| case(name, "us", &[(TMPFS, 1.0)])));
    let count = rows.len();
    let mut drawn: Vec<String> =
        charts(&report(rows), EXPERIMENT.charts).into_iter().flat_map(|chart| chart.cases).collect();
    assert_eq!(drawn.len(), count, "{drawn:?}");
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), count, "a case is drawn twice");
}
