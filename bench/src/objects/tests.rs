//! The verdict of a hand-made report.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_updates_peers_stores_and_media() {
    let mut rows = case(updates::LINE, "ns", &[(updates::BARE_FLUSH, 100.0), (updates::DIRECT, 120.0)]);
    rows.extend(case(updates::APPEND, "ns", &[(updates::BARE_NT, 100.0), (updates::APPENDED, 250.0)]));
    let peers = [
        ("map", 100.0),
        ("libpmemobj", 200.0),
        ("LMDB, write-map", 500.0),
        ("LMDB", 900.0),
        ("pwrite, fdatasync", 50.0),
    ];
    rows.extend(case(updates::UPDATE, "ns", &peers));
    rows.extend(case("64-bit stores SEQ 1 threads", "MB/s", &[("flush", 100.0), ("writethrough", 98.0)]));
    rows.extend(case("64-bit stores RND 2 threads", "MB/s", &[("flush", 100.0), ("writethrough", 104.0)]));
    rows.extend(case(
        media::CASE,
        "us",
        &[(media::OURS, 1.0), ("SSD (X25-E, simulated)", 90.0), ("HDD (7200 rpm, simulated)", 8000.0)],
    ));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "a direct update of a line beside store, flush and fence: 1.20",
            "an append of 64 bytes beside the bare store and fence: 2.50",
            "an update of 64 bytes, times as long as a map's put: libpmemobj 2.00, LMDB 5.0 to 9.0, pwrite and fdatasync 0.50",
            "bandwidth of write-through beside flush: in sequence 0.98 (paper: less than 1), at random 1.04 (paper: less than 1); \
         write-through is imitated by flushing every word, and costs the same",
            "a durable record, times as long as in persistent memory: disks 90 to 8000 (paper: 1.9 to 332)",
        ]
    );
}
