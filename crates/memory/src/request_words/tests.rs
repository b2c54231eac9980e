//! Exact counts, sampled latencies, and words that two mappings share.

use std::sync::atomic::AtomicU64;
use std::thread;

use super::*;
use crate::SharedWords;

static NOW: AtomicU64 = AtomicU64::new(0);

/// A clock that is 100 ns later at each call.
fn clock() -> u64 {
    NOW.fetch_add(100, Ordering::Relaxed) + 100
}

#[test]
fn counts_are_exact_and_all_requests_of_an_idle_program_are_timed() {
    let words = RequestWords::default();
    words.end_alone(words.begin(|| 7), || 1007, Some(64));
    words.end(words.begin(|| 7), || 3007, None);
    let totals = words.totals();
    assert_eq!((totals.requests, totals.bytes, totals.errors), (2, 64, 1));
    assert_eq!((totals.latency.count(), totals.latency.sum_ns), (2, 4000));
    words.clear();
    assert_eq!(words.totals(), RequestTotals::default());
}

#[test]
fn latencies_of_a_busy_program_are_a_fair_sample_whatever_its_period() {
    for period in [2, 16, 64, 1000] {
        let words = RequestWords::default();
        let requests = 320_000;
        for number in 0..requests {
            let slow: fn() -> u64 = if number % period == 0 { || 1_000_000 } else { || 100 };
            words.end_alone(words.begin(|| 0), slow, Some(1));
        }
        let totals = words.totals();
        assert_eq!((totals.requests, totals.bytes), (requests, requests));
        let latencies = totals.latency.count();
        assert!(latencies.abs_diff(requests) < requests / 100, "{latencies} latencies of {requests} requests");
        let slow = latencies - totals.latency.below_power(10);
        let real = requests / period;
        assert!(slow.abs_diff(real) <= real / 5 + 32, "period {period}: {slow} slow requests of {real}");
    }
}

#[test]
fn threads_lose_no_count() {
    let words = RequestWords::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|_| words.end(words.begin(clock), clock, Some(2))));
        }
    });
    let totals = words.totals();
    assert_eq!((totals.requests, totals.bytes, totals.errors), (40_000, 80_000, 0));
}

#[test]
fn a_count_in_shared_words_is_seen_by_the_other_process() {
    let ours: SharedWords = SharedWords::new(8 + REQUEST_WORDS).expect("words");
    let theirs: SharedWords = SharedWords::of(ours.share().expect("a descriptor")).expect("mapped");
    let counters = theirs.counters(8).expect("inside");
    counters.end_alone(counters.begin(|| 0), || 5, Some(3));
    assert_eq!(ours.counters(8).expect("inside").totals().bytes, 3);
    assert!(ours.counters(9).is_none() && ours.counters(usize::MAX).is_none(), "not all inside");
}
