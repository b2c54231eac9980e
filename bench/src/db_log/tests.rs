//! The verdict of a hand-made report, and how long slices are.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_every_database_in_every_place() {
    let places =
        [(STRICT, 1000.0), (RELAXED, 1100.0), (NOTHING, 4000.0), (DISK, 250.0), (OWN, 100.0), (SSD, 500.0), (HDD, 2.0)];
    let mut rows = case("SQLite update", "/s", &places);
    rows.extend(case("Redis SET, 1 client", "/s", &[(STRICT, 100.0), (RUN, 400.0), (WITHOUT, 800.0)]));
    rows.extend(case("PostgreSQL update", "/s", &[(STRICT, 100.0), (RUN, 90.0), (RUN_RELAXED, 180.0)]));
    rows.extend(case("append 64 B", "ns", &[(BARE, 100.0), (STRICT, 150.0), (RELAXED, 50.0), (GROUP, 40.0)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "SQLite update, commits of strict beside: relaxed 0.91 (paper: 1), no syncs on tmpfs 0.25, ext4 on a disk of ours \
         4.0, this machine's disk 10.0, the SSD 2.00 (paper: 1.9), the hard disk 500 (paper: 332)",
            "Redis SET under ferrite run beside no log: 1 client 0.50",
            "PostgreSQL update under ferrite run: strict beside relaxed 0.50",
            "a record of 64 bytes beside a bare store and fence: strict 1.50, relaxed 0.50, 16 to a fence 0.40",
        ]
    );
}

/// A slice that is too short measures the start of a server, and one too long lasts for minutes on a hard disk.
#[test]
fn slices_have_as_many_transactions_as_the_speed_allows() {
    let (plan, counts) =
        (CommitPlan { rounds: 1, slice: 0.5, trial: 30, branches: 1 }, std::cell::RefCell::new(Vec::new()));
    let speeds = [1000.0, 10.0, 1e9, 1000.0];
    let mut subject = committer("x", plan, |count| {
        counts.borrow_mut().push(count);
        Ok(speeds[counts.borrow().len() - 1])
    });
    for slice in 0..4 {
        assert_eq!((subject.slice)(slice).expect("it runs"), speeds[slice as usize]);
    }
    drop(subject);
    assert_eq!(counts.into_inner(), [30, 500, 30, 200_000]);
}
