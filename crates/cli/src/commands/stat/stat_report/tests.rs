//! Totals and rates.

use ferrite_memory::RequestCounters;

use super::*;

/// The metrics after `requests` reads of 4 KiB that took 1000 ns each.
fn metrics(reads: &RequestCounters, requests: u64) -> Vec<Metric> {
    (0..requests).for_each(|_| reads.count(1000, Some(4096)));
    let (labels, totals) = ([("disk", "d0"), ("op", "read")], reads.totals());
    let mut all = [Metric::counter("disk_requests_total", ""), Metric::counter("disk_bytes_total", "")];
    all[0].add(labels, totals.requests);
    all[1].add(labels, totals.bytes);
    let mut latency = Metric::histogram("disk_request_seconds", "");
    latency.add(labels, totals.latency.clone());
    latency.add([("disk", "d0"), ("op", "write")], LatencyCounts::default());
    let mut space = Metric::gauge("pool_space_bytes", "");
    space.add([("use", "free")], 1 << 20);
    let size = Metric::gauge("pool_size_bytes", "").of(2 << 20);
    let hits = Metric::counter("cache_read_hits_total", "").of(totals.latency.count());
    all.into_iter().chain([latency, space, size, hits]).collect()
}

#[test]
fn the_first_report_has_totals_and_the_next_has_rates() {
    let reads = RequestCounters::default();
    let (pool, first) = (Path::new("/dev/shm/pool"), metrics(&reads, 10));
    let report = StatReport::new(pool, &first, None);
    assert_eq!(report.requests.len(), 1, "an operation that was never done has no row: {report:?}");
    let row = &report.requests[0];
    assert_eq!((row.service.as_str(), row.name.as_str(), row.operation.as_str()), ("disk", "d0", "read"));
    assert_eq!((row.requests, row.bytes, row.errors), (10, 40960, 0));
    assert_eq!(row.latency.map(|latency| latency.p50_ns), Some(1023));
    let text = report.show();
    assert!(text.starts_with("pool /dev/shm/pool (2 MiB, 1 MiB free)\n"), "{text}");
    assert!(text.contains("disk d0") && text.contains("1.0 us"), "{text}");

    let next = metrics(&reads, 30);
    let report = StatReport::new(pool, &next, Some((Duration::from_secs(2), &first)));
    let row = &report.requests[0];
    assert_eq!((row.rate_requests, row.rate_bytes, row.rate_errors), (Some(15.0), Some(61440.0), Some(0.0)));
    let hits = report.values.iter().find(|row| row.name == "cache_read_hits_total").expect("a value");
    assert_eq!((hits.value, hits.rate), (40.0, Some(15.0)));
    let idle = StatReport::new(pool, &next, Some((Duration::from_secs(1), &next)));
    assert!(idle.requests[0].latency.is_none(), "no request, no latency");
}

#[test]
fn a_row_fits_80_columns_whatever_it_counts() {
    let mut row = RequestRow {
        service: "database".into(),
        name: "/srv/a long folder/shop.db".into(),
        operation: "attributes".into(),
        requests: 123_456_789_012,
        bytes: (1 << 30) - 1,
        errors: 7_654_321,
        latency: Some(LatencyQuantiles { p50_ns: 999, p99_ns: 999_999, p999_ns: 120_000_000_000 }),
        rate_requests: None,
        rate_bytes: None,
        rate_errors: None,
    };
    let text = row.show();
    assert!(text.trim_end().len() <= 79, "{text}");
    assert!(text.starts_with("database ..hop.db attributes"), "the end of a path is shown: {text}");
    row.rate_requests = Some(123_456.7);
    assert!(row.show().contains(" 123457 "), "{}", row.show());
    (row.service, row.name) = ("fs".into(), "projects".into());
    assert!(row.show().starts_with("fs projects       attributes"), "{}", row.show());
    row.service = "a service of a long name".into();
    assert_eq!(row.show_name(), "a service of a long name ..", "no name");
}

#[test]
fn times_have_a_unit_that_fits() {
    let shown = [999, 1500, 99_900, 7_000_000, 12_000_000_000].map(show_ns);
    assert_eq!(shown, ["999 ns", "1.5 us", "100 us", "7.0 ms", "12 s"]);
}
