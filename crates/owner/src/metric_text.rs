//! Metrics as text for Prometheus, in its exposition format 0.0.4.

use std::fmt::Write;

use ferrite_memory::LatencyCounts;

use crate::{Metric, MetricKind, MetricSample, MetricValue};

/// The media type of the text.
pub const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The prefix of all names.
pub const METRICS_PREFIX: &str = "ferrite_";

/// The limits of the buckets of a histogram, as powers of two of nanoseconds: from 128 ns to 17 s.
const LIMITS: std::ops::RangeInclusive<u32> = 7..=34;

/// Returns `metrics` as text. A metric without samples has its lines of help and type.
pub fn metrics_text(metrics: &[Metric]) -> String {
    let mut text = String::new();
    for metric in metrics {
        let name = format!("{METRICS_PREFIX}{}", metric.name);
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = metric.help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
        metric.samples.iter().for_each(|sample| write_sample(&mut text, &name, sample));
    }
    text
}

fn write_sample(text: &mut String, name: &str, sample: &MetricSample) {
    let labels: Vec<String> =
        sample.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    let labels = labels.join(",");
    let braced = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
    match &sample.value {
        MetricValue::Number { value } => _ = writeln!(text, "{name}{braced} {value}"),
        MetricValue::Latency { sum_ns, buckets } => {
            let latency = LatencyCounts { sum_ns: *sum_ns, buckets: buckets.clone() };
            let (comma, count) = (if labels.is_empty() { "" } else { "," }, latency.count());
            for power in LIMITS {
                let (limit, below) = (seconds(1 << power), latency.below_power(power));
                let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"{limit}\"}} {below}");
            }
            let _ = writeln!(text, "{name}_bucket{{{labels}{comma}le=\"+Inf\"}} {count}");
            let _ = writeln!(text, "{name}_sum{braced} {}\n{name}_count{braced} {count}", seconds(*sum_ns));
        }
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests;
