//! The metrics of mounted file systems.

use ferrite_owner::Metric;

use super::Filesystems;

impl Filesystems {
    /// Returns what the mounted file systems count.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut requests = Metric::counter("fs_requests_total", "Requests of the kernel to a mounted file system");
        let mut bytes = Metric::counter("fs_bytes_total", "Bytes of files that those requests read and wrote");
        let mut errors = Metric::counter("fs_errors_total", "Requests of the kernel that failed");
        let mut latency = Metric::histogram("fs_request_seconds", "Time that requests of the kernel took");
        let mut inodes = Metric::gauge("fs_free_inodes", "Inodes that can be made without more space");
        for (name, tree) in self.mounted().iter() {
            let fs = ("fs", name.as_str());
            for (op, totals) in tree.mounted.counters().totals() {
                requests.add([fs, ("op", op)], totals.latency.count());
                if matches!(op, "read" | "write") {
                    bytes.add([fs, ("op", op)], totals.bytes);
                }
                errors.add([fs, ("op", op)], totals.errors);
                latency.add([fs, ("op", op)], totals.latency);
            }
            inodes.add([fs], tree.fs.statfs().free_inodes);
        }
        vec![requests, bytes, errors, latency, inodes]
    }
}
