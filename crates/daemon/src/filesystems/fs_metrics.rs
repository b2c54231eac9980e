//! The metrics of mounted file systems.

use ferrite_fs::share::layout::shared_state::DirectRequest;
use ferrite_owner::{Metric, RequestMetrics};

use super::Filesystems;

impl Filesystems {
    /// Returns what the mounted file systems count.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut requests = RequestMetrics::new("fs", "the kernel to a mounted file system");
        let mut direct =
            Metric::counter("fs_direct_requests_total", "Requests that programs under `ferrite run` did themselves");
        let mut direct_bytes = Metric::counter("fs_direct_bytes_total", "Bytes of files that those requests moved");
        for (name, tree) in self.mounted().iter() {
            for (op, request) in [("read", DirectRequest::Read), ("write", DirectRequest::Write)] {
                let (count, bytes) = tree.fs.direct_counts(request);
                direct.add([("fs", name), ("op", op)], count);
                direct_bytes.add([("fs", name), ("op", op)], bytes);
            }
            for (op, totals) in tree.mounted.counters().totals() {
                requests.add(name, op, totals);
            }
        }
        requests.into_metrics().chain([direct, direct_bytes]).collect()
    }
}
