//! Requests that succeed and fail.

use std::cell::Cell;
use std::thread;

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
    counters.end(counters.begin(clock), clock, Some(4096));
    counters.end(counters.begin(clock), clock, None);
    counters.count(50, Some(1));
    let totals = counters.totals();
    assert_eq!((totals.requests, totals.bytes, totals.errors), (3, 4097, 1));
    assert_eq!((totals.latency.count(), totals.latency.sum_ns), (3, 250));
}

#[test]
fn no_thread_loses_a_count() {
    let counters = RequestCounters::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| counters.end(counters.begin(clock), clock, Some(2))));
        }
    });
    let totals = counters.totals();
    assert_eq!((totals.requests, totals.bytes, totals.errors), (40_000, 80_000, 0));
}
