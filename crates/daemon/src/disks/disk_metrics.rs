//! The metrics of open disks.

use ferrite_disk::COUNTED_OPS;
use ferrite_owner::{Metric, RequestMetrics};

use super::{OpenDisk, OpenDisks};

impl OpenDisks {
    /// Returns what the open disks count.
    pub(super) fn count(&self) -> Vec<Metric> {
        let mut requests = RequestMetrics::new("disk", "clients to an open disk");
        let mut used = Metric::gauge("disk_used_bytes", "Bytes of a disk that hold content");
        let mut unsaved = Metric::gauge("disk_unsaved_bytes", "Bytes of a disk that wait in buffers for a flush");
        let mut in_use = Metric::gauge("disk_in_use", "1 if a client or a node uses the disk, else 0");
        for (name, open) in self.open.lock().iter() {
            for (op, totals) in COUNTED_OPS.into_iter().zip(open.front.totals()) {
                requests.add(name, op, totals);
            }
            let (disk, OpenDisk { block, buffer, .. }) = (("disk", name.as_str()), open);
            in_use.add([disk], u64::from(open.is_used()));
            block.iter().for_each(|block| used.add([disk], block.used_and_free_bytes().0));
            buffer.iter().for_each(|buffer| unsaved.add([disk], buffer.buffered.unsaved_bytes()));
        }
        requests.into_metrics().chain([used, unsaved, in_use]).collect()
    }
}
