//! Buckets, quantiles and differences.

use std::thread;

use super::*;

#[test]
fn each_latency_has_the_bucket_that_begins_at_or_before_it() {
    for bucket in 0..BUCKETS {
        assert_eq!(bucket_of(start_of(bucket)), bucket, "the first latency of bucket {bucket}");
    }
    for bucket in 0..BUCKETS - 1 {
        let (start, end) = (start_of(bucket), start_of(bucket + 1));
        assert_eq!(bucket_of(end - 1), bucket, "the last latency of bucket {bucket}");
        assert!((end - start) * 8 <= start.max(8), "bucket {bucket} is an eighth of its latency wide");
    }
    assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
}

#[test]
fn quantiles_are_too_high_by_an_eighth_at_most() {
    let histogram = LatencyHistogram::default();
    assert_eq!(histogram.counts().quantile_ns(0.5), None);
    (1..=100_000).for_each(|ns| histogram.count(ns));
    let counts = histogram.counts();
    assert_eq!((counts.count(), counts.sum_ns), (100_000, 5_000_050_000));
    for quantile in [0.001, 0.5, 0.99, 0.999, 1.0] {
        let (real, found) = (quantile * 100_000.0, counts.quantile_ns(quantile).expect("counted") as f64);
        assert!(found >= real && found <= real * 1.125, "{quantile}: {found} for {real}");
    }
    assert_eq!(counts.below_power(10), 1023);
    assert_eq!(counts.below_power(40), 100_000);
}

#[test]
fn later_counts_less_earlier_counts_are_the_counts_between() {
    let histogram = LatencyHistogram::default();
    [5, 900, 900].into_iter().for_each(|ns| histogram.count(ns));
    let earlier = histogram.counts();
    [900, 7_000_000].into_iter().for_each(|ns| histogram.count(ns));
    let between = histogram.counts().since(&earlier);
    assert_eq!((between.count(), between.sum_ns), (2, 7_000_900));
    let mut again = earlier.clone();
    again.add(&between);
    assert_eq!(again, histogram.counts());
}

#[test]
fn no_thread_loses_a_count() {
    let histogram = LatencyHistogram::default();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10_000).for_each(|ns| histogram.count(ns)));
        }
    });
    assert_eq!(histogram.counts().count(), 40_000);
}
