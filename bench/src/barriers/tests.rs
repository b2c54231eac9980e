//! The verdict of a hand-made report.

use super::*;
use crate::tests::{case, report, verdict};

#[test]
fn the_verdict_has_the_driver_the_barrier_and_applications() {
    let driver = [(PEAK, 100.0), ("keys, nt, barriers", 80.0), (WHOLE, 40.0)];
    let mut rows = case("RD SEQ 4K Q1", "MB/s", &driver);
    rows.extend(case("WR SEQ 4K Q1", "MB/s", &driver));
    rows.extend(case(
        alone::CASES[1].0,
        "us",
        &[("keys, nt", 0.5), ("keys, writeback", 8.0), ("keys, writeback-all", 900.0)],
    ));
    for (name, all) in [("tar", 12.0), ("tpcc", 35.0)] {
        let times = [
            (BASE, 10.0),
            ("keys, nt, no barriers", 10.0),
            ("keys, nt", 11.0),
            ("keys, writeback", 11.0),
            ("keys, writeback-all", all),
        ];
        rows.extend(case(name, "s", &times));
    }
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "the whole driver beside plain cached stores: reads 0.80 (paper: 0.85), writes 0.80 (paper: 0.75), writes of whole \
         sectors 0.40",
            "a barrier after 64 writes: nt, which has nothing to flush, 0.50 us, tracked write-back, which flushes only what was \
         written, 8.0 us",
            "time of applications with barriers beside none without a guard: nt 1.10 (paper: 1), tracked write-back 1.10, all \
         lines flushed 1.20 to 3.5, tpcc with all lines flushed 3.5 (paper: 4.1, with wbinvd); a flush through the /dev node \
         costs more than its barrier",
        ]
    );
}

#[test]
fn flushing_every_line_is_told_by_the_line() {
    let all = name(Guard::best(), Scheme::WritebackAll);
    let rows = case(alone::CASES[0].0, "us", &[("keys, nt", 1.0), (&all, 2048.0)]);
    let text = flush_of_every_line(&report(rows), 64 << 20).expect("it was measured");
    assert_eq!(text, "flushing every line of 64 MiB, in place of wbinvd: 2.05 ms, 1.95 ns a clean line");
    assert_eq!(flush_of_every_line(&report(Vec::new()), 64 << 20), None);
}

#[test]
fn slices_of_barriers_are_few_and_long() {
    let plan = CopyPlan::of(Length::Full);
    assert_eq!((few(plan).rounds, few(plan).slice_ms), (13, 10));
    assert_eq!(super::case(16), "WR RND 4K Q1, a barrier after 16");
}
