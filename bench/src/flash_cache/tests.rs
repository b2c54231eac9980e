//! The verdict of hand-made reports.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_both_kinds_of_drives() {
    let subjects = |values: [f64; 3]| ["base", "flush", "nt"].into_iter().zip(values).collect::<Vec<_>>();
    let mut rows = case("simulated drives, uniform, 1 SSD", "1/s", &subjects([1000.0, 990.0, 995.0]));
    rows.extend(case("RAM disks, uniform, 1 SSD", "1/s", &subjects([100_000.0, 80_000.0, 90_000.0])));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "requests a second beside metadata that is lost, drives simulated at 20 times their speed: flush 0.990 (paper: \
             0.980), nt 0.995; the paper's disk serves 133 requests a second and hides the cost",
            "the same over RAM disks, where nothing hides the cost: flush 0.80, nt 0.90",
        ]
    );
}

#[test]
fn cases_are_named_by_drives_and_load() {
    let names: Vec<String> = FlashCase::all(Length::Full).iter().map(FlashCase::name).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(names[0], "simulated drives, uniform, 1 SSD");
    assert_eq!(names[7], "RAM disks, zipf 0.9, 2 SSDs");
}
