//! The metrics of open disks.

use ferrite_disk::{DiskStats, TIMED_OPS};
use ferrite_owner::Metric;

use super::{OpenDisk, OpenDisks};

impl OpenDisks {
    /// Returns what the open disks count.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut requests =
            Metric::counter("disk_requests_total", "Requests of a disk that succeeded, since it was opened");
        let mut bytes = Metric::counter("disk_bytes_total", "Bytes of those requests");
        let mut errors = Metric::counter("disk_errors_total", "Requests of a disk that failed");
        let mut latency = Metric::histogram("disk_request_seconds", "Time that requests of a disk took");
        let mut used = Metric::gauge("disk_used_bytes", "Bytes of a disk that hold content");
        let mut unsaved = Metric::gauge("disk_unsaved_bytes", "Bytes that wait in buffers for a flush");
        let mut clients = Metric::gauge("disk_in_use", "1 if a client or a node uses the disk, else 0");
        for (name, open) in self.open.lock().iter() {
            let (disk, stats) = (("disk", name.as_str()), open.front.stats());
            let counts = [stats.reads, stats.writes, stats.flushes, stats.trims, stats.zeroings];
            for (op, count) in TIMED_OPS.into_iter().zip(counts) {
                requests.add([disk, ("op", op)], count);
            }
            for (op, moved) in moved(&stats) {
                bytes.add([disk, ("op", op)], moved);
            }
            errors.add([disk], stats.errors);
            for (op, counts) in TIMED_OPS.into_iter().zip(open.front.latencies().into_iter().flatten()) {
                latency.add([disk, ("op", op)], counts);
            }
            clients.add([disk], u64::from(open.is_used()));
            let OpenDisk { block, buffer, .. } = open;
            block.iter().for_each(|block| used.add([disk], block.used_and_free_bytes().0));
            buffer.iter().for_each(|buffer| unsaved.add([disk], buffer.buffered.unsaved_bytes()));
        }
        vec![requests, bytes, errors, latency, used, unsaved, clients]
    }
}

fn moved(stats: &DiskStats) -> [(&'static str, u64); 4] {
    [
        ("read", stats.read_bytes),
        ("write", stats.written_bytes),
        ("trim", stats.trimmed_bytes),
        ("zero", stats.zeroed_bytes),
    ]
}
