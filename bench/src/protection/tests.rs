//! The verdict of hand-made reports, and what the parts measure.

use super::*;
use crate::rounds::Series;
use crate::tests::{case, report, verdict};

fn series(values: &[(&str, f64)]) -> Vec<Series> {
    values.iter().map(|(name, value)| Series { name: (*name).into(), values: vec![*value] }).collect()
}

#[test]
fn the_verdict_has_each_guard_beside_the_bare_copy() {
    let mut rows = Vec::new();
    for (name, slow) in [("RD RND 4K Q1", 0.9), ("WR SEQ 4K Q1", 0.1), ("WR SEQ 256K Q3", 0.5)] {
        let values = [
            (BARE, 1000.0),
            (KEYED, 995.0),
            ("pagetable (PT-Naive)", 1000.0 * slow),
            ("private", 400.0),
            ("keys", 990.0),
            ("keys=strict", 870.0),
        ];
        rows.extend(case(name, "MB/s", &values));
        rows.extend(copies::beside_keyed(name, "MB/s", &series(&values)));
    }
    rows.extend(case(atomic::CASES[0].0, "ns", &[(BARE, 300.0), ("keys", 600.0), ("none", 450.0)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "naive page table, times as long as the bare copy: 4K writes 10.0 (paper: 18), 256K writes 2.00",
            "private mapping beside the bare copy: 0.40 (paper: 0.85 to 0.90); in user space each mapping takes two system \
         calls and a TLB shootdown",
            "keys: beside the bare copy 0.990, beside a copy in the same window without a disk 0.995",
            "keys that also deny reads: 4K reads beside the bare copy 0.87",
            "whole sectors beside a bare copy-on-write: 4K writes under keys 2.00, 4K writes without a guard 1.50",
        ]
    );
}

#[test]
fn the_verdict_has_the_served_disk_beside_the_better_peer() {
    let peers = series(&[(OURS, 300.0), (BOUND, 800.0), ("nbdkit memory", 200.0), ("qemu-nbd tmpfs", 100.0)]);
    assert_eq!(served::better_peer(&peers).name, "nbdkit memory");
    let mut rows = crate::report::rows("NBD WR SEQ 256K Q8", "MB/s", &peers, served::better_peer(&peers));
    rows.extend(case("WR SEQ 256K Q1", "MB/s", &[(BARE, 1600.0)]));
    rows.push(ReportRow { unit: "ms", ..ReportRow::once(recovery::CASE.into(), OURS, 41.0, "limit of 100 ms", 0.41) });
    let report = report(rows);
    assert_eq!(
        crate::verdict::lines(&report, EXPERIMENT.verdict),
        [
            "NBD beside the better peer, or beside ferrite if there is none: ferrite 1.50, a server that copies nothing at \
         256K 4.0",
            "first reply after a kill: 41 ms",
        ]
    );
    // Copied once, 800 MB/s become 1 / (1 / 800 + 1 / 1600).
    let once = copied_once(&report).expect("both were measured");
    assert_eq!(once, "NBD writes of 256K, bound of a server that copies once: 2.67");
}

#[test]
fn without_a_peer_we_stand_beside_ourselves() {
    let alone = series(&[(OURS, 300.0), (BOUND, 800.0)]);
    assert_eq!(served::better_peer(&alone).name, OURS);
    let rows = crate::report::rows("NBD WR SEQ 256K Q8", "MB/s", &alone, &alone[0]);
    assert_eq!(copied_once(&report(rows)), None, "a bound beside ourselves says nothing about peers");
}

#[test]
fn the_disk_under_keys_stands_beside_the_copy_in_its_window() {
    let both = copies::beside_keyed("WR", "ns", &series(&[(BARE, 1.0), (KEYED, 2.0), ("keys", 3.0)]));
    assert_eq!(both.len(), 1);
    assert_eq!((both[0].subject.as_str(), both[0].beside.as_str(), both[0].ratio), ("keys", KEYED, 1.5));
    assert!(copies::beside_keyed("WR", "ns", &series(&[(BARE, 1.0), ("keys", 3.0)])).is_empty());
}

#[test]
fn loads_are_named_as_the_paper_names_them() {
    let names: Vec<String> = served::loads().map(|load| served::case(&load)).collect();
    assert_eq!(
        names,
        [
            "NBD RD SEQ 256K Q1",
            "NBD WR SEQ 256K Q1",
            "NBD RD SEQ 256K Q8",
            "NBD WR SEQ 256K Q8",
            "NBD RD RND 4K Q1",
            "NBD WR RND 4K Q1",
            "NBD RD RND 4K Q32",
            "NBD WR RND 4K Q32",
        ]
    );
}

/// A request that is sent twice to one place, or behind the end, measures another disk.
#[test]
fn places_cover_the_disk_in_order_or_at_random() {
    let load = |random| copy_load::CopyLoad { writes: false, random, bytes: 4096, depth: 1 };
    let mut in_order = copy_load::CopyPlaces::new(&load(false), 16 * 4096, 3);
    let places: Vec<u64> = (0..16).map(|_| in_order.next()).collect();
    let start = places[0];
    assert!(places.iter().zip(0..).all(|(place, step)| *place == (start + step * 4096) % (16 * 4096)), "{places:?}");
    let mut at_random = copy_load::CopyPlaces::new(&load(true), 16 * 4096, 3);
    let places: std::collections::BTreeSet<u64> = (0..400).map(|_| at_random.next()).collect();
    assert!(places.len() == 16 && places.iter().all(|place| place % 4096 == 0), "{places:?}");
}
