//! The verdict of hand-made reports, and the paces that are asked for.

use super::*;
use crate::tests::{case, report, verdict};

#[test]
fn the_verdict_has_the_slowest_speeds_and_the_database() {
    let mut rows = case("RD RND 4K Q1", "ns", &[("1x", 100.0), ("10x", 900.0)]);
    rows.extend(case("WR RND 4K Q1", "ns", &[("1x", 100.0), ("50x", 4000.0)]));
    let paces = [("rd 1x wr 1x", 10.0), ("rd 10x wr 1x", 13.0), ("rd 1x wr 50x", 15.0), ("rd 10x wr 50x", 20.0)];
    rows.extend(case("tpch", "s", &paces));
    rows.extend(case("tpcc", "s", &paces));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "in process, times as long: reads of 10x 9.0, writes of 50x 40; relative speeds multiply the time of each copy, not \
         the rest of a request",
            "tpch, times as long: reads of 10x 1.30 (paper: 1.36), at worst 2.00 (paper: 1.4)",
            "tpcc, times as long: writes of 50x 1.50, at worst 2.00 (paper: 3.6); copies are a smaller part of a request through \
         the /dev node than in the paper's driver",
        ]
    );
}

#[test]
fn speeds_are_met_within_a_part_or_a_few_nanoseconds() {
    let achieved = |asked: f64, achieved: f64| {
        let ratio = achieved / asked;
        ReportRow { unit: "ns", ..ReportRow::once("load".into(), accuracy::ACHIEVED, achieved, accuracy::ASKED, ratio) }
    };
    let rows = vec![
        achieved(100.0, 139.0),
        achieved(100.0, 141.0),
        achieved(10_000.0, 10_499.0),
        achieved(10_000.0, 10_501.0),
    ];
    assert_eq!(accuracy_text(&report(rows)).expect("rows"), "2 of 4 absolute speeds are met within 5 % or 40 ns");
    assert_eq!(accuracy_text(&report(Vec::new())), None);
}

#[test]
fn a_copy_after_a_pause_is_told_if_it_is_much_slower() {
    let rows = |most: f64| report(case("RD RND 4K Q1", "ns", &[("1x", 100.0), ("10x", most)]));
    assert_eq!(pause_text(&rows(1050.0)), None);
    let text = pause_text(&rows(2500.0)).expect("a quarter more than was asked for");
    assert_eq!(text, "a copy after a pause takes up to 2.50 times as long as one of many in a row");
}

#[test]
fn paces_are_named_by_what_is_asked_for() {
    let names = |length| paces(length).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(Length::Quick), ["rd 1x wr 1x", "rd 10x wr 1x", "rd 1x wr 50x", "rd 10x wr 50x"]);
    let full = names(Length::Full);
    assert!(
        full.len() == 10 && ["pcm", "optane", "cxl"].iter().all(|medium| full.iter().any(|name| name == medium)),
        "{full:?}"
    );
    assert_eq!(pace_name(&Pace::default()), full[0], "the first is DRAM's speed");
}
