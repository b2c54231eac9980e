//! Buckets, quantiles and differences.

use super::*;
use crate::RequestCounters;

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
    let requests = RequestCounters::default();
    assert_eq!(requests.totals().latency.quantile_ns(0.5), None);
    (1..=100_000).for_each(|ns| requests.count(ns, None));
    let counts = requests.totals().latency;
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
    let requests = RequestCounters::default();
    [5, 900, 900].into_iter().for_each(|ns| requests.count(ns, None));
    let earlier = requests.totals().latency;
    [900, 7_000_000].into_iter().for_each(|ns| requests.count(ns, None));
    let between = requests.totals().latency.since(&earlier);
    assert_eq!((between.count(), between.sum_ns), (2, 7_000_900));
    let mut again = earlier.clone();
    again.add(&between);
    assert_eq!(again, requests.totals().latency);
}
