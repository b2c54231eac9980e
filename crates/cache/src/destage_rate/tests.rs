//! The controller of the destage rate.

use super::*;

const SECOND: u64 = 1_000_000_000;

#[test]
fn rate_follows_a_steady_load_without_swinging() {
    let (mut rate, mut dirty, dirty_max) = (DestageRate::default(), 0_f64, 10_000);
    let mut rates = Vec::new();
    for second in 0..3000_u64 {
        dirty += 200.0;
        rate.pass(second * SECOND, dirty as u64, dirty_max, None);
        let pages = rate.pages(1);
        rate.spend(pages);
        dirty = (dirty - pages as f64).max(0.0);
        rates.push(rate.pages_per_second());
    }
    let last = &rates[2500..];
    let (least, most) = (last.iter().copied().fold(f64::MAX, f64::min), last.iter().copied().fold(0.0, f64::max));
    assert!(least > 150.0 && most < 250.0, "{least} to {most} pages a second");
    assert!(dirty < 9_000.0, "{dirty} pages are dirty");
}

#[test]
fn fixed_rate_is_kept_and_not_saved_up() {
    let mut rate = DestageRate::default();
    rate.pass(0, 500, 1000, Some(50));
    rate.pass(SECOND, 500, 1000, Some(50));
    assert_eq!(rate.pages(1), 50);
    rate.pass(60 * SECOND, 500, 1000, Some(50));
    assert_eq!(rate.pages(1), 400, "eight seconds of the rate at most");
}
