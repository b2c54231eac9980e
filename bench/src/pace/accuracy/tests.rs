//! The accuracy of emulated speeds, and the range of the cases.

use super::*;

/// Every case is measured, and none is faster than it was asked to be.
#[test]
fn nothing_is_achieved_early() {
    let start = Instant::now();
    let tsc = match Tsc::calibrate(|| start.elapsed().as_nanos() as u64) {
        Ok(tsc) => tsc,
        Err(why) => return println!("skipped: {why}"),
    };
    let (speed, memory) = (Speed::absolute(3000, 1000), memory().expect("there is memory"));
    for direction in [Direction::Load, Direction::Store] {
        let found = SpeedCase { direction, speed, bytes: PAGE }.measure(&memory, tsc).expect("a pace");
        assert_eq!(found.asked_ns, 7096.0);
        assert!(found.least_ns >= found.asked_ns && found.typical_ns >= found.least_ns, "{found:?}");
    }
}

/// The range that is promised is the range that is measured.
#[test]
fn the_cases_span_the_range() {
    let latencies: Vec<u64> = asked().map(|(speed, _)| speed.latency_ns).filter(|ns| *ns > 0).collect();
    let rates: Vec<u64> = asked().filter_map(|(speed, _)| speed.bandwidth_mb_s).collect();
    assert_eq!((latencies.iter().min(), latencies.iter().max()), (Some(&100), Some(&1_000_000)));
    assert_eq!((rates.iter().min(), rates.iter().max()), (Some(&50), Some(&10_000)));
}
