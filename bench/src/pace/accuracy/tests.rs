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
    for stores in [false, true] {
        let [asked, achieved] = SpeedCase { stores, speed, bytes: PAGE }.measure(&memory, tsc).expect("a pace");
        assert_eq!((asked.value, asked.unit), (7096.0, "ns"));
        assert!(achieved.value >= asked.value && achieved.high >= achieved.ratio, "{achieved:?}");
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
