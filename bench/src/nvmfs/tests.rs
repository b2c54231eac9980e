//! The goals of reports that are made by hand.

use super::*;
use crate::options::Length;
use crate::tests::case;

#[test]
fn each_load_has_a_case_for_each_size_of_the_ssd_and_each_way_to_sync() {
    let names = |length| cases(&TierPlan::of(length)).into_iter().map(|case| case.name).collect::<Vec<_>>();
    assert_eq!(names(Length::Quick).len(), 6);
    let full = names(Length::Full);
    assert_eq!(full.len(), 4 * 2 * 2 + 2 * 2, "two loads are run in one way: {full:?}");
    assert!(full.contains(&"fio, 90 % live, synced every 64".into()), "{full:?}");
}

#[test]
fn a_missed_goal_is_printed_as_missed() {
    let line = |ours| {
        let name = "postmark, 60 % live: written to the SSD";
        let mut report_rows = case(name, "MiB", &[("ext4", 100.0), (OURS, ours), ("xfs", 80.0)]);
        report_rows.extend(case("iozone, 60 % live: write request", "KiB", &[("ext4", 4.0), (OURS, 512.0)]));
        tier_goals::lines(&report_rows)
    };
    let met =
        ["3.7 bytes, postmark 0.250, wanted 0.4 at most", "3.10 KiB of a write request 512.000, wanted 500 at least"];
    assert_eq!(line(20.0), met);
    assert_eq!(line(40.0)[0], "3.7 bytes, postmark 0.500, wanted 0.4 at most: missed");
}
