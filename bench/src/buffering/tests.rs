//! The verdict of a hand-made report.

use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_each_step_beside_the_one_before_it() {
    let values = [(BASE, 1000.0), (NAIVE, 100.0), (BUFFER, 40.0), (BATCH, 250.0), (MANY, 500.0), (KEYS, 990.0)];
    let rows = ["WR SEQ 4K Q8", "WR RND 4K Q8"].into_iter().flat_map(|name| case(name, "MB/s", &values)).collect();
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "naive page table beside no guard: 0.10 (paper: 0.054)",
            "4K with many in flight, one buffer beside the naive page table: in sequence 0.40 (paper: 0.40), at random 0.40; a \
         buffer adds a copy and a lock, and saves no system call",
            "the same, batching beside the naive page table: in sequence 2.50 (paper: 2.57), at random 2.50 (paper: 0.48); only \
         neighbours share a change of the page table",
            "the same, 16 buffers beside one: in sequence 2.00 (paper: 1.52), at random 2.00 (paper: 1.94)",
            "keys, which need no buffer, beside no guard: 0.99",
        ]
    );
}

/// The paper's figures are of many requests in flight.
#[test]
fn one_request_in_flight_is_not_compared_with_the_paper() {
    let rows = case("WR SEQ 4K Q1", "MB/s", &[(BASE, 1000.0), (NAIVE, 100.0), (BUFFER, 40.0)]);
    assert_eq!(verdict(EXPERIMENT.verdict, rows), ["naive page table beside no guard: 0.10 (paper: 0.054)"]);
}
