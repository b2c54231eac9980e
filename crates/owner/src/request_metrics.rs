//! The metrics that all services with requests have.

use ferrite_memory::RequestTotals;
use ferrite_pool::holding::{LEASE_OPS, TagCounts};
use ferrite_pool::{Pool, TagKind};

use crate::Metric;

/// Requests, bytes, errors and latencies of the things that one service serves. A thing's name is the value of the label
/// that is called as the service, and `op` is the operation.
pub struct RequestMetrics {
    service: &'static str,
    requests: Metric,
    bytes: Metric,
    errors: Metric,
    latency: Metric,
}

impl RequestMetrics {
    /// Returns the metrics of `service` without samples. `origin` says whose requests they are.
    pub fn new(service: &'static str, origin: &str) -> Self {
        let name = |what: &str| format!("{service}_{what}");
        Self {
            service,
            requests: Metric::counter(&name("requests_total"), &format!("Requests of {origin}")),
            bytes: Metric::counter(&name("bytes_total"), &format!("Bytes of requests of {origin}, if they succeeded")),
            errors: Metric::counter(&name("errors_total"), &format!("Requests of {origin}, if they failed")),
            latency: Metric::histogram(&name("request_seconds"), &format!("Time that requests of {origin} took")),
        }
    }

    /// Adds the requests `totals` that did the operation `op` on what is called `name`.
    pub fn add(&mut self, name: &str, op: &str, totals: RequestTotals) {
        let labels = [(self.service, name), ("op", op)];
        self.requests.add(labels, totals.requests);
        self.bytes.add(labels, totals.bytes);
        self.errors.add(labels, totals.errors);
        self.latency.add(labels, totals.latency);
    }

    /// Returns the four metrics.
    pub fn into_metrics(self) -> impl Iterator<Item = Metric> {
        [self.requests, self.bytes, self.errors, self.latency].into_iter()
    }
}

/// Returns the metrics of the operations `ops` that the holders of tags of `kind` counted. A tag has samples of an
/// operation once it was done. `origin` says whose operations they are.
pub fn lease_metrics(
    pool: &Pool,
    kind: TagKind,
    service: &'static str,
    origin: &str,
    ops: [&str; LEASE_OPS],
) -> Vec<Metric> {
    let mut requests = RequestMetrics::new(service, origin);
    for tag in pool.tags().into_iter().filter(|tag| tag.kind == kind) {
        let totals = ops.into_iter().zip(TagCounts::of(pool).totals(&tag)).filter(|(_, totals)| totals.requests > 0);
        totals.for_each(|(op, totals)| requests.add(&tag.name, op, totals));
    }
    requests.into_metrics().collect()
}
