use super::*;

#[test]
fn classes_are_narrow_and_in_order() {
    for ns in (0..4000).chain([200_000, 2_000_000, 17_123_456, u64::from(u32::MAX), u64::MAX / 2, u64::MAX]) {
        let class = class_of(ns);
        let later = ns as f64 * 1.032 + 1.0;
        assert!(later >= u64::MAX as f64 || class_of(later as u64) > class, "a class as wide as {ns}");
        assert!(ns == 0 || class_of(ns - 1) <= class && class_of(ns - 1) + 1 >= class, "{ns}");
    }
}

#[test]
fn parts_and_mean_are_those_of_the_times() {
    let mut latency = WriteLatency::default();
    latency.add(10, 98);
    latency.add(1000, 1);
    latency.add(5000, 1);
    assert_eq!((latency.mean_ns(), latency.max_ns()), (69.8, 5000));
    assert_eq!((latency.quantile_ns(0.5), latency.quantile_ns(0.98), latency.quantile_ns(1.0)), (10, 10, 5000));
    assert_eq!(latency.quantile_ns(0.99), 1000);
    assert_eq!(WriteLatency::default().quantile_ns(0.5), 0);
}
