//! The verdict of hand-made reports, and what the simulation repeats.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_throughput_hits_and_writes() {
    let subjects =
        |values: [f64; 3]| ["RAID-1", "ferrite", "the paper's policy"].into_iter().zip(values).collect::<Vec<_>>();
    let mut rows = case("9:1, zipf 0.5, flash 60 %: requests", "1/s", &subjects([100.0, 135.0, 130.0]));
    rows.extend(case("1:1, zipf 0.5, flash 60 %: requests", "1/s", &subjects([100.0, 125.0, 120.0])));
    rows.extend(case("9:1, zipf 0.5, flash 60 %: hit ratio", "", &subjects([0.4, 0.6, 0.5])));
    rows.extend(case("9:1, zipf 0.5, flash 60 %: SSD bytes a byte", "", &subjects([1.0, 0.6, 0.8])));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "requests a second beside RAID-1, flash of 60 % of the file, wanted 1.3 and 1.2: 9:1 1.35 (paper: 1.2 to 1.3), \
             1:1 1.25 (paper: 1.2 to 1.3)",
            "hit ratio of reads beside RAID-1: every size 1.50 (paper: above 1)",
            "beside the paper's policy, 9:1: hits 1.200, bytes written to SSDs 0.75",
        ]
    );
}

/// A run depends on nothing but its sizes: no thread, no clock of the host.
#[test]
fn a_simulated_run_repeats_exactly() {
    let case = MultiCase { reads_permille: 500, theta: 0.5, flash_percent: 60 };
    let sizes = sizes(Length::Smoke);
    let run = |kind| format!("{:?}", measure(kind, &case, &sizes, &AtomicBool::new(false)).expect("it runs"));
    for kind in [CacheKind::Ferrite, CacheKind::Raid1] {
        assert_eq!(run(kind), run(kind), "{kind:?}");
    }
}

#[test]
fn cases_are_named_by_load_and_flash() {
    let case = MultiCase { reads_permille: 900, theta: 0.9, flash_percent: 42 };
    assert_eq!(case.name(), "9:1, zipf 0.9, flash 42 %");
}
