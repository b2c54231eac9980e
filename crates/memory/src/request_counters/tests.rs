//! Requests that succeed and fail.

use std::cell::Cell;

use super::*;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

/// A clock that is 100 ns later at each call.
fn clock() -> u64 {
    NOW.set(NOW.get() + 100);
    NOW.get()
}

#[test]
fn bytes_count_if_the_request_succeeds_and_time_counts_always() {
    let counters = RequestCounters::default();
    assert_eq!(counters.timed(clock, 4096, || Ok::<_, ()>(7)), Ok(7));
    assert_eq!(counters.timed(clock, 4096, || Err::<(), _>(8)), Err(8));
    let totals = counters.totals();
    assert_eq!((totals.bytes, totals.errors), (4096, 1));
    assert_eq!((totals.latency.count(), totals.latency.sum_ns), (2, 200));
}
