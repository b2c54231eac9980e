//! Requests that succeed, fail and panic.

use super::*;

#[test]
fn a_request_counts_under_its_operation_with_its_outcome() {
    let counters = FuseCounters::new(|| 0);
    counters.count(FuseOperation::Read, || {
        note_moved(4096);
        Some(())
    });
    counters.count(FuseOperation::Read, || {
        note_failed();
        Some(())
    });
    counters.count(FuseOperation::Other, || None);
    let of = |name: &str| counters.totals().find(|(known, _)| *known == name).expect("an operation").1;
    let [read, other, write] = ["read", "other", "write"].map(of);
    assert_eq!((read.latency.count(), read.bytes, read.errors), (2, 4096, 1));
    assert_eq!((other.latency.count(), other.bytes, other.errors), (1, 0, 1));
    assert_eq!(write, RequestTotals::default());
}
