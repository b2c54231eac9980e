//! Disks as a service that a program links.

use std::path::Path;
use std::sync::Arc;

use ferrite_block::{DISK_BYTES_MAX, DiskOwner, DiskShape, DiskSpec};
use ferrite_disk::{Disk, FaultPlan, FaultPlanError};
use ferrite_disk_address::{FaultyDisk, faulty_disks, set_fault_plan};
use ferrite_memory::ByteCount;
use ferrite_owner::services::{parse, reply};
use ferrite_owner::{
    EndedConnection, Metric, OWN_CONNECTION, ProgressCall, Removal, RunningService, Service, ServiceCall, ServicePool,
    ServiceReply, TypedRequest, space_bytes,
};
use ferrite_pool::check::{MovedRange, TagFindings, TagOwner};
use ferrite_pool::{Failure, FailureKind, Freeze, Pool, Tag, TagKind};

use super::{CountedDisk, DISK, DiskReport, DiskRequest, FaultyDiskReport, OpenDisks, Serving};
use crate::tag_names::{ensure_kind, report_each};

/// The service of disks.
pub struct DiskService;

impl TagOwner for DiskService {
    fn kind(&self) -> TagKind {
        TagKind::DISK
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        DiskOwner.walk(pool, tag, findings);
    }

    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> ferrite_pool::Result<()> {
        DiskOwner.repair(pool, tag, findings)
    }

    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> ferrite_pool::Result<()> {
        DiskOwner.relocate(pool, tag, moved)
    }
}

impl Service for DiskService {
    fn name(&self) -> &'static str {
        DISK
    }

    fn removal(&self) -> Removal {
        Removal::ByCommand { noun: "a disk", command: "ferrite disk remove" }
    }

    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure> {
        let (registry, running) = (Arc::clone(pool.registry), pool.running.clone());
        let disks = OpenDisks::new(Arc::clone(pool.pool), pool.lock.path(), registry, running);
        let idle: Arc<dyn Freeze> = disks.clone();
        pool.pool.register_freezer(Arc::downgrade(&idle));
        Ok(disks)
    }
}

impl RunningService for OpenDisks {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        let ServiceCall { caller, request, view, progress, .. } = call;
        let request: DiskRequest = parse(DISK, request)?;
        view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
        let connection = (caller.connection != OWN_CONNECTION).then_some(caller.connection);
        self.perform(request, connection, progress)
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        self.end_for(ended.caller.connection);
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }

    fn open_disk(&self, name: &str) -> Option<Result<Arc<dyn Disk>, Failure>> {
        Some(self.open(name, &self.usual()).map(|disk| disk as Arc<dyn Disk>))
    }

    fn close_disk(&self, name: &str) -> Result<(), Failure> {
        self.while_closed(name, || Ok(()))
    }

    fn refuse_own(&self, file: &Path) -> Result<(), Failure> {
        self.refuse_on_own_node(file)
    }

    fn is_used(&self) -> bool {
        self.is_reached()
    }

    fn end(&self) -> Result<(), Failure> {
        self.end_all()
    }
}

impl OpenDisks {
    fn perform(
        &self,
        request: DiskRequest,
        connection: Option<u64>,
        progress: ProgressCall<'_>,
    ) -> Result<ServiceReply, Failure> {
        request.disk().map_or(Ok(()), |name| self.ensure_disk(name, &request))?;
        match request {
            DiskRequest::List => reply(&report_each(|| self.all_names(), |name| self.describe(name))?),
            DiskRequest::Create { name, size, sector_bytes, thin, checksum } => {
                ensure_possible(size, sector_bytes)?;
                self.ensure_name_free(&name)?;
                let spec = DiskSpec { size, sector_bytes, thin, checksum };
                let made = ferrite_block::create_watched(&self.pool, &name, &spec, progress);
                made.map_err(|error| self.registry.taken(&self.pool, error))?;
                reply(&self.describe(&name)?)
            }
            DiskRequest::Remove { name } => {
                let remove = || Ok(ferrite_block::remove(&self.pool, &name)?);
                reply(&self.while_closed(&name, remove)?)
            }
            DiskRequest::Resize { name, size } => {
                self.resize(&name, size)?;
                reply(&self.describe(&name)?)
            }
            DiskRequest::Serve { name, nbd_addresses, serving, overwrite } => {
                if overwrite {
                    self.ensure_node_unused(&name)?;
                }
                reply(&self.listen(&nbd_addresses, &name, &serving, connection)?)
            }
            DiskRequest::Attach { name, serving } => reply(&self.attach(&name, &serving)?),
            DiskRequest::Detach { name } => reply(&self.detach(&name)?),
            DiskRequest::AttachFile { name, spec } => reply(&self.attach_file(&name, &spec)?),
            DiskRequest::DetachFile { name } => reply(&self.detach_file(&name)?),
            DiskRequest::File { name } => reply(&self.file_report(&name)),
            DiskRequest::Stat { name } => reply(&self.describe(&name)?),
            DiskRequest::Faults => reply(&fault_reports()),
            DiskRequest::SetFaults { address, plan } => {
                set_faults(&address, &plan)?;
                reply(&fault_reports())
            }
        }
    }

    /// Refuses a name that `request` cannot work on. A disk of another service is used and described here; its service
    /// changes and removes it.
    fn ensure_disk(&self, name: &str, request: &DiskRequest) -> Result<(), Failure> {
        let wanted = request.wants_to_use();
        let may_be_any = wanted || matches!(request, DiskRequest::Stat { .. } | DiskRequest::File { .. });
        if may_be_any {
            self.ensure_any_disk(name, wanted)
        } else {
            ensure_kind(&self.pool, name, TagKind::DISK, wanted)
        }
    }

    /// Refuses a name that no disk of any service has; advises to make one if it is `wanted`.
    fn ensure_any_disk(&self, name: &str, wanted: bool) -> Result<(), Failure> {
        let is_one = self.all_names().iter().any(|known| known == name);
        if is_one { Ok(()) } else { ensure_kind(&self.pool, name, TagKind::DISK, wanted) }
    }

    /// Refuses a new disk whose name a service has given to a disk in a tag of another name.
    fn ensure_name_free(&self, name: &str) -> Result<(), Failure> {
        let service = self.other_service(name).filter(|_| self.pool.tag(name).is_err());
        match service {
            None => Ok(()),
            Some((service, _)) => {
                let why = format!("a disk of the service {service} is called {name:?}: choose another name");
                Err(Failure::new(FailureKind::Exists, why))
            }
        }
    }

    /// Returns the service beside this one that has the disk called `name`, and the bytes of the disk, if it knows them.
    fn other_service(&self, name: &str) -> Option<(&'static str, Option<u64>)> {
        self.running.upgrade()?.disk_of(name)
    }

    /// Opens the disk called `name`, as [`OpenDisks::open`]; the error about a missing disk advises to make it.
    ///
    /// # Errors
    /// As [`OpenDisks::open`].
    pub fn open_known(&self, name: &str, serving: &Serving) -> Result<Arc<CountedDisk>, Failure> {
        self.ensure_any_disk(name, true)?;
        self.open(name, serving)
    }

    /// Describes the disk called `name`.
    ///
    /// # Errors
    /// The failure of reading the tag, such as the kind [`FailureKind::NotFound`].
    pub fn describe(&self, name: &str) -> Result<DiskReport, Failure> {
        if let Some((service, size)) = self.other_service(name) {
            return Ok(self.describe_other(name, service, size));
        }
        let tag = self.pool.tag(name)?;
        let shape = DiskShape::read(&tag)?;
        Ok(DiskReport {
            name: name.into(),
            service: None,
            size_bytes: shape.size,
            sector_bytes: shape.sector_bytes,
            thin: shape.thin,
            checksum: shape.checksum,
            space_bytes: space_bytes(&tag),
            reached_at: self.reached_at(name),
            usual: self.usual(),
            open: self.report(name),
        })
    }

    /// Describes a disk of another service. Of one that was not used yet only what the service knows is said.
    fn describe_other(&self, name: &str, service: &str, size: Option<u64>) -> DiskReport {
        let open = self.report(name);
        let geometry = self.open_geometry(name);
        DiskReport {
            name: name.into(),
            service: Some(service.into()),
            size_bytes: geometry.as_ref().map_or(size.unwrap_or(0), |geometry| geometry.size),
            sector_bytes: geometry.map_or(0, |geometry| geometry.sector_bytes),
            thin: false,
            checksum: false,
            space_bytes: self.pool.tag(name).map_or(0, |tag| space_bytes(&tag)),
            reached_at: self.reached_at(name),
            usual: self.usual(),
            open,
        }
    }
}

/// Describes the disks behind `fault:PLAN:` that are open in this process.
fn fault_reports() -> Vec<FaultyDiskReport> {
    let report =
        |FaultyDisk { name, plan, requests }| FaultyDiskReport { address: name, plan: plan.to_string(), requests };
    faulty_disks().into_iter().map(report).collect()
}

/// Replaces the plan of the open disk behind `fault:PLAN:` at `address`.
fn set_faults(address: &str, plan: &str) -> Result<(), Failure> {
    let plan: FaultPlan = plan.parse().map_err(|error: FaultPlanError| Failure::refused(error.to_string()))?;
    set_fault_plan(address, &plan).map_err(|error| Failure::new(FailureKind::NotFound, error.to_string()))
}

/// Refuses a size that no disk has.
fn ensure_possible(size: u64, sector_bytes: u32) -> Result<(), Failure> {
    if size > DISK_BYTES_MAX {
        let (size, most) = (ByteCount(size), ByteCount(DISK_BYTES_MAX));
        return Err(Failure::new(FailureKind::Limit, format!("a disk of {size} is not possible: {most} at most")));
    }
    if !size.is_multiple_of(u64::from(sector_bytes).max(1)) {
        let bytes = ByteCount(u64::from(sector_bytes));
        let why = format!("a disk of {size} bytes is not possible: whole sectors of {bytes}");
        return Err(Failure::new(FailureKind::Limit, why));
    }
    Ok(())
}
