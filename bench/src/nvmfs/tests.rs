//! The goals of reports that are made by hand.

use super::tier_run::CleaningFigures;
use super::*;
use crate::options::Length;
use crate::report::BOUND;
use crate::tests::case;

#[test]
fn each_load_has_a_case_for_each_size_of_the_ssd_and_each_way_to_sync() {
    let names = |length| cases(&TierPlan::of(length)).into_iter().map(|case| case.name).collect::<Vec<_>>();
    let quick = names(Length::Quick);
    assert_eq!(quick.len(), 6 + 2 + 1, "two loads on a full SSD, and one with syncs: {quick:?}");
    assert!(quick.contains(&"iozone, 90 % live".into()), "{quick:?}");
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

#[test]
fn a_mean_that_is_met_is_missed_if_a_case_is_below_one() {
    let line = |postmark| {
        let mut report_rows = case("iozone, 60 % live: operations", "1/s", &[("ext4", 1.0), (OURS, 18.0)]);
        report_rows.extend(case("postmark, 60 % live: operations", "1/s", &[("ext4", 1.0), (OURS, postmark)]));
        tier_goals::lines(&report_rows)
    };
    let wanted = "wanted 3 at least and none below 1";
    let text = |range, mean| format!("3.13 durable operations, 60 % live {range}, geometric mean {mean}, {wanted}");
    assert_eq!(line(2.0), [text("2.000 to 18.000", "6.000")]);
    assert_eq!(line(0.5), [text("0.500 to 18.000", "3.000") + ": missed"]);
}

#[test]
fn references_are_ordered_as_their_knowledge_is() {
    let plan = TierPlan::of(Length::Smoke);
    for load in plan.loads() {
        let size = ReferenceSize { memory_bytes: plan.memory_bytes, content_bytes: Some(plan.memory_bytes / 2) };
        let Some(LoadReferences { figures, .. }) = tier_run::references(&load.synced(64), size) else {
            assert_eq!(load.name, "postmark", "its requests are postmark's");
            continue;
        };
        let of = |name: &str| figures.iter().find(|one| one.name == name).expect("there");
        assert!(of(LRU).written_bytes >= of(BOUND).written_bytes, "{}: {figures:?}", load.name);
        assert!(of(LRU).hit_ratio <= of(BOUND).hit_ratio, "{}: {figures:?}", load.name);
        if matches!(load.kind, tier_plan::LoadKind::Pages { .. }) {
            assert!(of(LRU_OF_CONTENT).hit_ratio <= of(LRU).hit_ratio, "{}: {figures:?}", load.name);
        }
    }
}

#[test]
fn cleaning_is_efficient_if_little_moves() {
    let of = |recycled_pages, moved_pages| CleaningFigures { recycled_pages, moved_pages }.efficiency();
    assert_eq!(of(0, 0), None);
    assert_eq!(of(200, 50), Some(0.75));
    // Pages that moved before their segment was empty count for the next one.
    assert_eq!(of(127, 130), Some(0.0));
}
