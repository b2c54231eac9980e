//! File systems as a service that a program links.

use std::sync::Arc;

use ferrite_fs::FilesOwner;
use ferrite_fs::share::layout::request::SHARE;
use ferrite_owner::services::{parse, reply};
use ferrite_owner::{
    EndedConnection, HeldOutside, Metric, ProgressCall, Removal, RunningService, Service, ServiceCall, ServicePool,
    ServiceReply, TypedRequest,
};
use ferrite_pool::check::{MovedRange, TagFindings, TagOwner};
use ferrite_pool::{Failure, Pool, Tag, TagKind};

use super::{FS, Filesystems, FsRequest, Which, names};
use crate::tag_names::{ensure_kind, report_each};

/// The service of file systems. It answers requests by two names: "fs" from commands, and "share" from programs that read
/// and write files by themselves.
pub struct FilesService;

impl TagOwner for FilesService {
    fn kind(&self) -> TagKind {
        TagKind::FILES
    }

    fn walk(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) {
        FilesOwner.walk(pool, tag, findings);
    }

    fn repair(&self, pool: &Pool, tag: &Tag, findings: &mut TagFindings<'_>) -> ferrite_pool::Result<()> {
        FilesOwner.repair(pool, tag, findings)
    }

    fn relocate(&self, pool: &Pool, tag: &Tag, moved: &MovedRange) -> ferrite_pool::Result<()> {
        FilesOwner.relocate(pool, tag, moved)
    }
}

impl Service for FilesService {
    fn name(&self) -> &'static str {
        FS
    }

    fn protocols(&self) -> &'static [&'static str] {
        &[SHARE]
    }

    fn removal(&self) -> Removal {
        // It may be mounted.
        Removal::ByCommand { noun: "a file system", command: "ferrite fs remove" }
    }

    fn start(&self, pool: &ServicePool<'_>) -> Result<Arc<dyn RunningService>, Failure> {
        let files = Arc::new(Filesystems::new(pool));
        let idle: Arc<dyn ferrite_pool::Freeze> = files.clone();
        pool.pool.register_freezer(Arc::downgrade(&idle));
        Ok(files)
    }
}

impl RunningService for Filesystems {
    fn call(&self, call: ServiceCall<'_>) -> Result<ServiceReply, Failure> {
        // A client may wait for the answer in the middle of a write.
        if call.service == SHARE {
            return self.answer(call.caller, &parse(SHARE, call.request)?);
        }
        let request: FsRequest = parse(FS, call.request)?;
        call.view.map_or(Ok(()), |view| view.ensure_shared(&request.places()))?;
        self.perform(request, call.progress)
    }

    fn connection_ended(&self, ended: &EndedConnection<'_>) {
        self.end_sessions_of(ended.caller.connection);
    }

    fn metrics(&self) -> Vec<Metric> {
        self.count()
    }

    fn outside(&self) -> Result<Vec<(String, u64)>, Failure> {
        self.away()
    }

    fn hold_outside(&self) -> Result<Vec<Box<dyn HeldOutside>>, Failure> {
        self.hold_ssds()
    }

    fn is_used(&self) -> bool {
        self.is_mounted()
    }

    fn end(&self) -> Result<(), Failure> {
        self.abandon_all()
    }
}

impl Filesystems {
    fn perform(&self, request: FsRequest, progress: ProgressCall<'_>) -> Result<ServiceReply, Failure> {
        if let FsRequest::Unmount(which)
        | FsRequest::Stat(which)
        | FsRequest::Drain(which)
        | FsRequest::AddSsds { which, .. }
        | FsRequest::Tier { which, .. } = &request
        {
            self.ensure_ours(which)?;
        }
        let wanted = matches!(request, FsRequest::Mount { .. });
        let known = |name| ensure_kind(&self.pool, name, TagKind::FILES, wanted);
        request.file_system().map_or(Ok(()), known)?;
        match request {
            FsRequest::List => reply(&report_each(|| names(&self.pool), |name| self.report(name))?),
            FsRequest::Create { name, super_threshold_bytes, ssds, lose } => {
                if self.pool.tag(&name).is_ok() {
                    return Err(self.registry.taken(&self.pool, ferrite_pool::Error::Exists(name)));
                }
                self.create(&name, super_threshold_bytes)?;
                if !ssds.is_empty()
                    && let Err(why) = self.add_ssds(&name, &ssds, lose)
                {
                    // The file system is empty.
                    let _ = self.remove(&name);
                    return Err(why);
                }
                reply(&self.report(&name)?)
            }
            FsRequest::AddSsds { which: Which { name, .. }, ssds, lose } => {
                self.add_ssds(&name, &ssds, lose)?;
                reply(&self.report(&name)?)
            }
            FsRequest::Drain(Which { name, .. }) => {
                self.drain(&name)?;
                reply(&self.report(&name)?)
            }
            FsRequest::Tier { which: Which { name, .. }, tier } => self.perform_tier(&name, tier, progress),
            FsRequest::Remove { name } => reply(&self.remove(&name)?),
            FsRequest::Mount { name, mounting } => reply(&self.mount(&name, &mounting)?),
            FsRequest::Unmount(Which { name, .. }) => reply(&self.unmount(&name)?),
            FsRequest::Stat(Which { name, .. }) => reply(&self.report(&name)?),
        }
    }
}
