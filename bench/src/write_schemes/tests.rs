//! The verdict of a hand-made report, and names.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_nt_and_clflush_at_both_sizes_and_under_applications() {
    let values =
        |nt, clflush| [(BASE, 100.0), ("keys, nt", nt), ("keys, clflush", clflush), ("keys, writethrough", 2.0)];
    let mut rows = case("WR RND 4K Q1", "MB/s", &values(90.0, 50.0));
    rows.extend(case("WR RND 4K Q8", "MB/s", &values(80.0, 60.0)));
    rows.extend(case("WR SEQ 256K Q1", "MB/s", &values(120.0, 40.0)));
    rows.extend(case("untar", "s", &values(101.0, 105.0)));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "writes in process beside cached stores without a guard: nt at 4K, the best in the paper except at Q32, 0.80 to \
         0.90, nt at 256K, the best in the paper, 1.20, clflush at 4K 0.50 to 0.60, clflush at 256K 0.40, write-through, \
         which the paper leaves out as too slow, 0.020",
            "4K writes with many in flight, where clflush is ahead in the paper: nt 0.80, clflush 0.60; a 64-byte non-temporal \
         store fills a line at once and does not wait in a write-combining buffer",
            "time of applications: nt 1.01 (paper: about 1), clflush 1.05 (paper: the worst); through the /dev node the copy is \
         the smallest part of a request",
        ]
    );
}

#[test]
fn guards_and_schemes_are_named_together() {
    assert_eq!(name(Guard::None, Scheme::Writeback), BASE);
    assert_eq!(name(Guard::Keys, Scheme::Nt), "keys, nt");
}

/// Without a guard, cached stores are what all stand beside, and no subject twice.
#[test]
fn no_subject_is_the_one_that_all_stand_beside() {
    assert!(guarded(SCHEMES).all(|scheme| name(Guard::best(), scheme) != BASE));
    assert_eq!(guarded(SCHEMES).count(), SCHEMES.len() - usize::from(Guard::best() == Guard::None));
}
