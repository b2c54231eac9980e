//! The metrics of mounted file systems.

use ferrite_owner::Metric;

use super::Filesystems;
use crate::request_metrics::RequestMetrics;

impl Filesystems {
    /// Returns what the mounted file systems count.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut requests = RequestMetrics::new("fs", "the kernel to a mounted file system");
        for (name, tree) in self.mounted().iter() {
            for (op, totals) in tree.mounted.counters().totals() {
                requests.add(name, op, totals);
            }
        }
        requests.into_metrics().collect()
    }
}
