//! Guests as a service that a program links.

use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Disk, FileDisk, FileDiskOptions};
use ferrite_owner::services::{parse, reply};
use ferrite_owner::{Metric, Removal, RunningService, Service, ServiceCall, ServicePool, ServiceReply, TypedRequest};
use ferrite_pool::check::{TagFindings, TagOwner};
use ferrite_pool::{Failure, Pool, Tag, TagKind};
use serde_json::Value;

use crate::guest_requests::{GUEST, GuestRequest};
use crate::guest_walk::walk;
use crate::open_guests::{DiskOpener, OpenGuests};
use crate::shared_budget::{AskedShare, BALANCE};
use crate::{GUEST_KIND, GuestCounts, GuestDisk};

/// The service of guests.
pub struct GuestService {
    opener: Arc<DiskOpener>,
}

impl GuestService {
    /// Returns the service, which opens disks by `opener`.
    pub fn new(opener: Arc<DiskOpener>) -> Self {
        Self { opener }
    }

    /// Returns the service for guests whose disks are files or devices.
    pub fn of_files() -> Self {
        let open = |address: &str| -> Result<Arc<dyn Disk>, String> {
            let disk = FileDisk::open(address.as_ref(), &FileDiskOptions::default());
            disk.map(|disk| Arc::new(disk) as Arc<dyn Disk>).map_err(|error| error.to_string())
        };
        Self::new(Arc::new(open))
    }
}

impl TagOwner for GuestService {
    fn kind(&self) -> TagKind {
        GUEST_KIND
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        walk(pool, tag, findings);
    }
}

impl Service for GuestService {
    fn name(&self) -> &'static str {
        GUEST
    }

    fn removal(&self) -> Removal {
        Removal::ByCommand { noun: "a guest", command: "ferrite guest remove" }
    }

    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure> {
        Ok(OpenGuests::new(pool, Arc::clone(&self.opener)))
    }
}

impl RunningService for OpenGuests {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        let ServiceCall { caller, request, view, progress, fds, .. } = call;
        let request: GuestRequest = parse(GUEST, request)?;
        view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
        match request {
            GuestRequest::List => reply(&self.list()),
            GuestRequest::Create { name, size, pm, weight, disk } => {
                reply(&self.create(name, size, AskedShare { pm, weight }, &disk)?)
            }
            GuestRequest::Set { name, pm, weight } => reply(&self.set(&name, AskedShare { pm, weight })?),
            GuestRequest::Budget { set_bytes } => reply(&self.budget_report(set_bytes)?),
            GuestRequest::Detach { name } => reply(&self.detach(&name, progress)?),
            GuestRequest::Stat { name } => reply(&self.stat(&name)?),
            GuestRequest::Flush { name } => reply(&self.flush(&name, progress)?),
            GuestRequest::Resize { name, pm_bytes } => reply(&self.resize(&name, pm_bytes, progress)?),
            GuestRequest::SetSize { name, size, lose } => reply(&self.set_size(&name, size, lose, progress)?),
            GuestRequest::Export { name } => reply(&self.export(&name, fds, progress)?),
            GuestRequest::Import { name } => reply(&self.import(&name, fds, progress)?),
            GuestRequest::Lend { name } => self.lend(&name, caller),
            GuestRequest::Remove { name, lose } => reply(&self.remove(&name, lose, progress)?),
        }
    }

    fn step(&self) -> Option<Duration> {
        self.balance();
        Some(BALANCE)
    }

    fn stat(&self, tag: &Tag) -> Option<Value> {
        serde_json::to_value(self.report(tag)).ok()
    }

    fn metrics(&self) -> Vec<Metric> {
        let all = self.all_counts();
        let each = |mut metric: Metric, of: &dyn Fn(&GuestCounts) -> u64| {
            all.iter().for_each(|(name, counts)| metric.add([("guest", name)], of(counts)));
            metric
        };
        let gauge = |name: &str, help: &str, of: &dyn Fn(&GuestCounts) -> u64| each(Metric::gauge(name, help), of);
        let counter = |name: &str, help: &str, of: &dyn Fn(&GuestCounts) -> u64| each(Metric::counter(name, help), of);
        vec![
            gauge("guest_truth_frames", "Frames that are newer than the disks", &|it| it.truth_frames),
            gauge("guest_copy_frames", "Frames that the disks have too", &|it| it.copy_frames),
            counter("guest_promoted_pages_total", "Pages that moved to frames", &|it| it.promoted_pages),
            counter("guest_missed_pages_total", "Promoted pages that had lost their frames lately", &|it| {
                it.missed_pages
            }),
            counter("guest_demoted_pages_total", "Pages that moved to disks", &|it| it.demoted_pages),
            counter("guest_returned_pages_total", "Pages stored to while they were copies", &|it| it.returned_pages),
            counter("guest_disk_written_bytes_total", "Bytes written to disks", &|it| it.disk_written_bytes),
            counter("guest_waits_total", "Writes that waited for a frame", &|it| it.waits),
        ]
    }

    fn disk_names(&self) -> Vec<String> {
        self.names()
    }

    fn disk_size(&self, name: &str) -> Option<u64> {
        self.size(name)
    }

    fn open_disk(&self, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        let open = self.open(name);
        Some(open.map(|guest| Arc::new(GuestDisk(Arc::clone(&guest.engine))) as Arc<dyn Disk>))
    }

    fn end(&self) -> Result<(), Failure> {
        self.end_all();
        Ok(())
    }
}
