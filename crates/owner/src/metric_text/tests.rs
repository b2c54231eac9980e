//! The text of each kind of metric.

use ferrite_memory::RequestCounters;

use super::*;

#[test]
fn a_number_has_its_labels_and_strange_names_are_escaped() {
    let mut disks = Metric::counter("disk_requests_total", "Requests\nof disks");
    disks.add([("disk", "a\"b\\c\nd"), ("op", "read")], 7);
    let text = metrics_text(&[disks, Metric::gauge("pool_bytes", "Bytes").of(1.5)]);
    let expected = "# HELP ferrite_disk_requests_total Requests\\nof disks\n# TYPE ferrite_disk_requests_total counter\n\
                    ferrite_disk_requests_total{disk=\"a\\\"b\\\\c\\nd\",op=\"read\"} 7\n\
                    # HELP ferrite_pool_bytes Bytes\n# TYPE ferrite_pool_bytes gauge\nferrite_pool_bytes 1.5\n";
    assert_eq!(text, expected);
}

#[test]
fn a_histogram_counts_up_to_all_latencies() {
    let latency = RequestCounters::default();
    [100, 1000, 1 << 40].into_iter().for_each(|ns| latency.count(ns, None));
    let text = metrics_text(&[Metric::histogram("x_seconds", "Latencies").of(latency.totals().latency)]);
    for line in [
        "ferrite_x_seconds_bucket{le=\"0.000000128\"} 1\n",
        "ferrite_x_seconds_bucket{le=\"0.000001024\"} 2\n",
        "ferrite_x_seconds_bucket{le=\"17.179869184\"} 2\n",
        "ferrite_x_seconds_bucket{le=\"+Inf\"} 3\n",
        "ferrite_x_seconds_count 3\n",
    ] {
        assert!(text.contains(line), "{line} is missing in {text}");
    }
}

#[test]
fn metrics_keep_their_values_on_the_wire() {
    let latency = RequestCounters::default();
    latency.count(1 << 20, None);
    let all = vec![Metric::gauge("a", "A").of(3), Metric::histogram("b_seconds", "B").of(latency.totals().latency)];
    let text = serde_json::to_string(&all).expect("JSON");
    assert_eq!(serde_json::from_str::<Vec<Metric>>(&text).expect("metrics"), all);
}
