use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::*;

fn clock_ns() -> impl Fn() -> u64 + Clone {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as u64
}

/// A wait is never shorter than asked, by the clock that the counter was measured against.
#[test]
fn no_wait_ends_early() {
    let clock_ns = clock_ns();
    let tsc = match Tsc::calibrate(&clock_ns) {
        Ok(tsc) => tsc,
        Err(why) => return println!("skipped: {why}"),
    };
    for asked_ns in [0, 100, 1000, 30_000, 1_000_000] {
        for _ in 0..20 {
            let start_ns = clock_ns();
            tsc.wait_until(tsc.now() + (asked_ns as f64 * tsc.per_ns()).ceil() as u64);
            let waited_ns = clock_ns() - start_ns;
            assert!(waited_ns >= asked_ns, "{waited_ns} ns instead of {asked_ns}");
        }
    }
}

#[test]
fn a_clock_of_another_unit_scales_the_count() {
    let clock_ns = clock_ns();
    let (Ok(one), Ok(slow)) = (Tsc::calibrate(&clock_ns), Tsc::calibrate(|| clock_ns() / 2)) else {
        return println!("skipped: no even counter");
    };
    assert!(slow.per_ns() > one.per_ns() * 1.5, "{slow:?} is no slower clock than {one:?}");
}

#[test]
fn a_clock_that_stands_still_is_refused() {
    let looks = AtomicU64::new(0);
    let still = || {
        looks.fetch_add(1, Ordering::Relaxed);
        7
    };
    if Tsc::calibrate(clock_ns()).is_ok() {
        assert!(Tsc::calibrate(still).unwrap_err().to_string().contains("stands still"));
    }
}
