//! Metrics: numbers that an owner and its services count, in the form of Prometheus.

use std::collections::BTreeMap;

use ferrite_memory::LatencyCounts;
use serde::{Deserialize, Serialize};

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MetricKind {
    /// A count that only grows while the owner lives. Its name ends in `_total`.
    Counter,
    /// A value that grows and shrinks.
    Gauge,
    /// The latencies of requests. Its name ends in `_seconds`.
    Histogram,
}

/// A metric with all its samples; without samples while there is nothing to count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// The name, in `snake_case`, with its unit at the end and without the prefix `ferrite_`.
    pub name: String,
    /// The meaning, in one line.
    pub help: String,
    /// The kind.
    pub kind: MetricKind,
    /// The samples; no two have the same labels.
    pub samples: Vec<MetricSample>,
}

/// One number, or one set of latencies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricSample {
    /// What is counted, such as the name of the disk.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value.
    #[serde(flatten)]
    pub value: MetricValue,
}

/// The value of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MetricValue {
    /// A number.
    Number {
        /// The number.
        value: f64,
    },
    /// Latencies.
    Latency {
        /// The sum of the latencies, in nanoseconds.
        sum_ns: u64,
        /// The buckets of a [`LatencyCounts`].
        buckets: Vec<(u16, u64)>,
    },
}

impl From<u64> for MetricValue {
    fn from(value: u64) -> Self {
        Self::Number { value: value as f64 }
    }
}

impl From<f64> for MetricValue {
    fn from(value: f64) -> Self {
        Self::Number { value }
    }
}

impl From<LatencyCounts> for MetricValue {
    fn from(LatencyCounts { sum_ns, buckets }: LatencyCounts) -> Self {
        Self::Latency { sum_ns, buckets }
    }
}

impl MetricValue {
    /// Returns the number; `None` for latencies.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number { value } => Some(*value),
            Self::Latency { .. } => None,
        }
    }

    /// Returns the latencies; `None` for a number.
    pub fn latency(&self) -> Option<LatencyCounts> {
        match self {
            Self::Number { .. } => None,
            Self::Latency { sum_ns, buckets } => Some(LatencyCounts { sum_ns: *sum_ns, buckets: buckets.clone() }),
        }
    }
}

impl Metric {
    /// Returns a counter without samples.
    pub fn counter(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricKind::Counter)
    }

    /// Returns a gauge without samples.
    pub fn gauge(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricKind::Gauge)
    }

    /// Returns a histogram of latencies without samples.
    pub fn histogram(name: &str, help: &str) -> Self {
        Self::new(name, help, MetricKind::Histogram)
    }

    fn new(name: &str, help: &str, kind: MetricKind) -> Self {
        Self { name: name.into(), help: help.into(), kind, samples: Vec::new() }
    }

    /// Adds the one sample of a metric without labels.
    #[must_use]
    pub fn of(mut self, value: impl Into<MetricValue>) -> Self {
        self.add([], value);
        self
    }

    /// Adds a sample.
    pub fn add<const N: usize>(&mut self, labels: [(&str, &str); N], value: impl Into<MetricValue>) {
        let labels = labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
        self.samples.push(MetricSample { labels, value: value.into() });
    }
}
