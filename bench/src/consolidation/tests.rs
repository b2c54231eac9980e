//! The verdict of a hand-made report, and the sizes of the tile.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_each_load_beside_the_paper() {
    let kept = |values: [f64; 3]| [ALL, "15 %", "50 %"].into_iter().zip(values).collect::<Vec<_>>();
    let mut rows = case("tile: dbench", "MB/s", &kept([1000.0, 750.0, 950.0]));
    rows.extend(case("tile: file server 1", "MB/s", &kept([400.0, 380.0, 400.0])));
    rows.extend(case("tile: file server 2", "MB/s", &kept([400.0, 400.0, 400.0])));
    rows.extend(case(USAGE, "", &[("file server 1", 0.4), ("file server 2", 0.4), ("dbench", 0.05)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "dbench, kept of the tile with all memory: at 15 % (wanted 0.7) 0.75 (paper: 0.6), at 50 % (wanted 0.9) 0.95 \
             (paper: 0.8)",
            "file servers, kept of the tile with all memory: at 15 % 0.95 to 1.00 (paper: about 1), at 50 % 1.00 (paper: \
             about 1)",
            "figure 10, part of the tile's stored pages: dbench 0.050 (paper: 0.04 of all memory), a file server 0.40 \
             (paper: 0.37); each guest has a fixed part of the budget, in proportion to these pages",
        ]
    );
}

#[test]
fn a_tile_is_as_large_as_the_paper_says() {
    let mib: u64 = TILE.iter().map(|guest| guest.mib).sum();
    assert!((2100..=2200).contains(&mib), "{mib}");
    for length in [Length::Full, Length::Quick, Length::Smoke] {
        let plan = TilePlan::of(length);
        let smallest = TILE.iter().map(|guest| plan.size(guest)).min().expect("there are five");
        assert!(smallest >= 1 << 20 && smallest.is_multiple_of(4096), "{smallest}");
    }
}
