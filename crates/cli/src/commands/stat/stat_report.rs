//! The numbers of a pool's metrics, as `ferrite stat` shows them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ferrite_memory::LatencyCounts;
use ferrite_owner::paths::in_line;
use ferrite_owner::{Metric, MetricKind, MetricSample};
use serde::Serialize;

use crate::size;

/// What a pool did.
#[derive(Debug, Serialize)]
pub struct StatReport {
    #[serde(serialize_with = "ferrite_owner::paths::show")]
    pool: PathBuf,
    /// Seconds since the report before; `None` in the first one.
    seconds: Option<f64>,
    /// The requests of each operation that was ever done.
    requests: Vec<RequestRow>,
    /// All other numbers.
    values: Vec<ValueRow>,
}

/// The requests that did one operation on one thing.
#[derive(Debug, Serialize)]
struct RequestRow {
    /// The service, such as `disk`.
    service: String,
    /// The name of the disk, the file system or the like.
    name: String,
    operation: String,
    requests: u64,
    bytes: u64,
    errors: u64,
    /// Latencies since the report before, or since the pool was opened.
    latency: Option<LatencyQuantiles>,
    /// Requests, bytes and errors a second since the report before.
    rate_requests: Option<f64>,
    rate_bytes: Option<f64>,
    rate_errors: Option<f64>,
}

/// Latencies in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct LatencyQuantiles {
    p50_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
}

/// A number that is not a count of requests.
#[derive(Debug, Serialize)]
struct ValueRow {
    /// The name of the metric, without `ferrite_`.
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
    /// The growth of a counter a second since the report before.
    rate: Option<f64>,
}

/// The metrics of a moment, to be found by name and labels.
#[derive(Clone, Copy)]
struct Moment<'a>(&'a [Metric]);

impl<'a> Moment<'a> {
    fn sample(self, name: &str, labels: &BTreeMap<String, String>) -> Option<&'a MetricSample> {
        let metric = self.0.iter().find(|metric| metric.name == name)?;
        metric.samples.iter().find(|sample| sample.labels == *labels)
    }

    fn number(self, name: &str, labels: &BTreeMap<String, String>) -> f64 {
        self.sample(name, labels).and_then(|sample| sample.value.number()).unwrap_or(0.0)
    }
}

impl LatencyQuantiles {
    fn of(latency: &LatencyCounts) -> Option<Self> {
        let [p50_ns, p99_ns, p999_ns] = [0.5, 0.99, 0.999].map(|quantile| latency.quantile_ns(quantile));
        Some(Self { p50_ns: p50_ns?, p99_ns: p99_ns?, p999_ns: p999_ns? })
    }
}

/// The width of the services' and things' names: a row fits 80 columns.
const NAME_COLUMNS: usize = 17;

/// The ends of the names of the metrics that requests have.
const REQUEST_ENDS: [&str; 4] = ["_requests_total", "_bytes_total", "_errors_total", "_request_seconds"];

impl StatReport {
    /// Returns the report of `metrics`. `before` is the report before: how long ago it was, and its metrics.
    pub fn new(pool: &Path, metrics: &[Metric], before: Option<(Duration, &[Metric])>) -> Self {
        let earlier = before.map(|(passed, metrics)| (passed.as_secs_f64(), Moment(metrics)));
        let with_requests: Vec<&str> =
            metrics.iter().filter_map(|metric| metric.name.strip_suffix("_request_seconds")).collect();
        let is_of_requests = |metric: &Metric| {
            let services = REQUEST_ENDS.iter().filter_map(|end| metric.name.strip_suffix(end));
            services.into_iter().any(|service| with_requests.contains(&service))
        };
        let samples = |metric: &'_ Metric| metric.samples.clone();
        let mut requests = Vec::new();
        for service in &with_requests {
            let latencies = metrics.iter().find(|metric| metric.name == format!("{service}_request_seconds"));
            let rows = latencies.into_iter().flat_map(samples);
            requests.extend(rows.filter_map(|sample| RequestRow::new(service, &sample, Moment(metrics), earlier)));
        }
        let others = metrics.iter().filter(|metric| !is_of_requests(metric));
        let values =
            others.flat_map(|metric| metric.samples.iter().filter_map(|sample| value_of(metric, sample, earlier)));
        Self { pool: pool.into(), seconds: earlier.map(|(seconds, _)| seconds), requests, values: values.collect() }
    }

    /// Returns the report for people.
    pub fn show(&self) -> String {
        let mut text = self.show_pool();
        if !self.requests.is_empty() {
            let (requests, bytes) = if self.seconds.is_some() { ("reqs/s", "bytes/s") } else { ("requests", "bytes") };
            text += &format!("\n{:<28} {requests:>8} {bytes:>10} {:>6}", "", "errors");
            text.extend(["p50", "p99", "p99.9"].map(|head| format!(" {head:>7}")));
            text += "\n";
        }
        text.extend(self.requests.iter().map(RequestRow::show));
        let others: Vec<&ValueRow> = self.values.iter().filter(|row| !row.is_of_pool() && row.value != 0.0).collect();
        if !others.is_empty() {
            text += "\n";
        }
        text.extend(others.into_iter().map(ValueRow::show));
        text
    }

    /// Returns the first lines: the pool's space and age.
    fn show_pool(&self) -> String {
        let value = |name: &str| self.values.iter().find(|row| row.name == name).map(|row| row.value);
        let free = self.values.iter().find(|row| row.labels.get("use").is_some_and(|used_as| used_as == "free"));
        let total = value("pool_size_bytes").unwrap_or(0.0);
        let free = free.map_or(0.0, |row| row.value);
        let mut text =
            format!("pool {} ({}, {} free)\n", in_line(&self.pool), size::show(total as u64), size::show(free as u64));
        let recovered = if value("pool_recovered") == Some(1.0) { "recovered and opened" } else { "opened" };
        let (open, opening) =
            (value("pool_open_seconds").unwrap_or(0.0), value("pool_recovery_seconds").unwrap_or(0.0));
        text += &format!("{recovered} in {}, {} ago", show_ns((opening * 1e9) as u64), show_ns((open * 1e9) as u64));
        let image =
            value("pool_image_age_seconds").map(|age| format!("; image written {} ago", show_ns((age * 1e9) as u64)));
        text += &(image.unwrap_or_default() + "\n");
        let spaces = self.values.iter().filter(|row| row.name == "pool_tag_space_bytes" && row.value > 0.0);
        let kind = |row: &ValueRow| format!("{} {}", row.labels["kind"], size::show(row.value as u64));
        let spaces: Vec<String> = spaces.map(kind).collect();
        if spaces.is_empty() { text } else { text + &format!("space: {}\n", spaces.join(", ")) }
    }
}

impl RequestRow {
    /// Returns the row of the requests whose latencies are `sample`; `None` if there was no request.
    fn new(service: &str, sample: &MetricSample, now: Moment<'_>, earlier: Option<(f64, Moment<'_>)>) -> Option<Self> {
        let (labels, latency) = (&sample.labels, sample.value.latency()?);
        if latency.buckets.is_empty() {
            return None;
        }
        let count = |moment: Moment<'_>, end: &str| moment.number(&format!("{service}{end}"), labels);
        let [requests, bytes, errors] = ["_requests_total", "_bytes_total", "_errors_total"].map(|end| count(now, end));
        let rate = |now: f64, end: &str| {
            let (seconds, before) = earlier?;
            Some((now - count(before, end)).max(0.0) / seconds)
        };
        let before = earlier.and_then(|(_, before)| before.sample(&format!("{service}_request_seconds"), labels));
        let before = before.and_then(|sample| sample.value.latency()).unwrap_or_default();
        let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
        Some(Self {
            service: service.into(),
            name: label(service),
            operation: label("op"),
            requests: requests as u64,
            bytes: bytes as u64,
            errors: errors as u64,
            latency: LatencyQuantiles::of(&latency.since(&before)),
            rate_requests: rate(requests, "_requests_total"),
            rate_bytes: rate(bytes, "_bytes_total"),
            rate_errors: rate(errors, "_errors_total"),
        })
    }

    fn show(&self) -> String {
        let requests = self.rate_requests.unwrap_or(self.requests as f64);
        let bytes = self.rate_bytes.unwrap_or(self.bytes as f64);
        let bytes = if bytes < 1.0 { "-".into() } else { size::show(bytes as u64) };
        let (name, requests, errors) = (self.show_name(), show_count(requests), show_count(self.errors as f64));
        let mut text = format!("{name:<17} {:<10} {requests:>8} {bytes:>10} {errors:>6}", self.operation);
        let quantiles = self.latency.map(|latency| [latency.p50_ns, latency.p99_ns, latency.p999_ns].map(show_ns));
        text.extend(quantiles.unwrap_or_default().map(|ns| format!(" {ns:>7}")));
        text.trim_end().to_owned() + "\n"
    }

    /// Returns the service and the name. Of a long name, such as a path, the end is shown.
    fn show_name(&self) -> String {
        let (room, length) = (NAME_COLUMNS.saturating_sub(self.service.len() + 1), self.name.chars().count());
        if length <= room {
            return format!("{} {}", self.service, self.name);
        }
        let end: String = self.name.chars().skip(length + 2 - room.clamp(2, length + 2)).collect();
        format!("{} ..{end}", self.service)
    }
}

/// Returns the row of a number.
fn value_of(metric: &Metric, sample: &MetricSample, earlier: Option<(f64, Moment<'_>)>) -> Option<ValueRow> {
    let value = sample.value.number()?;
    let is_count = metric.kind == MetricKind::Counter;
    let rate = earlier.filter(|_| is_count).map(|(seconds, before)| {
        let grown = value - before.number(&metric.name, &sample.labels);
        grown.max(0.0) / seconds
    });
    Some(ValueRow { name: metric.name.clone(), labels: sample.labels.clone(), value, rate })
}

impl ValueRow {
    fn is_of_pool(&self) -> bool {
        self.name.starts_with("pool_")
    }

    fn show(&self) -> String {
        let is_bytes = self.name.ends_with("_bytes") || self.name.ends_with("_bytes_total");
        let number = |value: f64| if is_bytes { size::show(value as u64) } else { format!("{value:.0}") };
        let labels: Vec<&str> = self.labels.values().map(String::as_str).collect();
        let name = format!("{} {}", self.name.trim_end_matches("_total").replace('_', " "), labels.join(" "));
        let growth = self.rate.map(|rate| format!(" {:>11}/s", number(rate))).unwrap_or_default();
        format!("{name:<32} {:>11}{growth}\n", number(self.value))
    }
}

/// Returns a count in six digits, or in thousands and the like.
fn show_count(count: f64) -> String {
    let units = [(1e12, "T"), (1e9, "G"), (1e6, "M")];
    let unit = units.into_iter().find(|(unit, _)| count >= *unit);
    unit.map_or_else(|| format!("{count:.0}"), |(unit, name)| format!("{:.1}{name}", count / unit))
}

/// Returns a time with its unit, in seven characters if it is below an hour.
fn show_ns(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..1_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    if value < 10.0 { format!("{value:.1} {unit}") } else { format!("{value:.0} {unit}") }
}

#[cfg(test)]
mod tests;
