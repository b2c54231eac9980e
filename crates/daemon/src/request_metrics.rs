//! The metrics that all services with requests have.

use ferrite_memory::RequestTotals;
use ferrite_owner::Metric;

/// Requests, bytes, errors and latencies of the things that one service serves. A thing's name is the value of the label
/// that is called as the service, and `op` is the operation.
pub(crate) struct RequestMetrics {
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
        self.requests.add(labels, totals.latency.count());
        self.bytes.add(labels, totals.bytes);
        self.errors.add(labels, totals.errors);
        self.latency.add(labels, totals.latency);
    }

    /// Returns the four metrics.
    pub fn into_metrics(self) -> impl Iterator<Item = Metric> {
        [self.requests, self.bytes, self.errors, self.latency].into_iter()
    }
}
