//! Requests that change the members of a cache, its content or its existence.

use std::sync::Arc;

use ferrite_owner::services::reply;
use ferrite_owner::{ProgressCall, ServiceReply};
use ferrite_pool::{Failure, FailureKind, Progress};

use crate::cache_reports::{
    CacheReport, CacheState, DiskStats, DroppedContent, ForgottenContent, ReturnedSsd, SsdStats,
};
use crate::cache_requests::{CacheRequest, MemberAddress, NewCacheDisk};
use crate::open_caches::{OpenCaches, WORK_PAUSE};
use crate::{ForgetScope, forget_cache, remove_cache};

impl OpenCaches {
    /// Does what a `request` asks that changes a cache that exists.
    pub(crate) fn change_members(
        &self,
        request: CacheRequest,
        progress: ProgressCall<'_>,
    ) -> Result<ServiceReply, Failure> {
        match request {
            CacheRequest::Drop { name } => {
                reply(&DroppedContent { dropped_bytes: self.open(&name)?.cache.drop_clean()? })
            }
            CacheRequest::AddSsd { name, ssd, lose } => reply(&self.add_ssd(&name, &ssd, lose)?),
            CacheRequest::RemoveSsd { name, id, lose } => reply(&self.remove_ssd(&name, id, lose, progress)?),
            CacheRequest::KeepSsd { name, id } => {
                self.open(&name)?.cache.cancel_removal(id)?;
                reply(&self.ssd_stats(&name, id)?)
            }
            CacheRequest::Online { name, id, lose } => {
                let content = self.open(&name)?.cache.online(id, lose)?;
                reply(&ReturnedSsd { content, ssd: self.ssd_stats(&name, id)? })
            }
            CacheRequest::AddDisk { name, disk } => reply(&self.add_disk(&name, &disk)?),
            CacheRequest::RemoveDisk { name, export } => {
                self.close_disk_elsewhere(&export)?;
                self.open(&name)?.cache.remove_disk(&export)?;
                reply(&self.report(&*self.tag(&name)?))
            }
            CacheRequest::Remove { name, lose } => {
                let removed = self.report(&*self.tag(&name)?);
                self.remove(&name, lose, progress)?;
                reply(&removed)
            }
            CacheRequest::Forget { name, lose } => reply(&self.forget(&name, lose)?),
            other => Err(Failure::new(FailureKind::BadRequest, format!("{other:?} changes no cache"))),
        }
    }

    fn ssd_stats(&self, name: &str, id: u8) -> Result<SsdStats, Failure> {
        let found = self.stats(name)?.ssds.into_iter().find(|ssd| ssd.id == id);
        found.ok_or_else(|| Failure::not_found(format!("SSD {id} left the cache {name:?}")))
    }

    fn add_ssd(&self, name: &str, ssd: &MemberAddress, lose: Option<u64>) -> Result<SsdStats, Failure> {
        let open = self.open(name)?;
        if ssd.has_path() && lose.is_none() {
            ferrite_pool::ensure_no_member(&ssd.path)?;
        }
        let id = open.cache.add_ssd(self.new_ssd(ssd)?, lose)?;
        self.ssd_stats(name, id)
    }

    /// Removes an SSD, and returns when it has left.
    fn remove_ssd(
        &self,
        name: &str,
        id: u8,
        lose: Option<u64>,
        progress: ProgressCall<'_>,
    ) -> Result<CacheReport, Failure> {
        let open = self.open(name)?;
        if open.cache.removal_left(id).is_none() || lose.is_some() {
            open.cache.remove_ssd(id, lose)?;
        }
        let mut most = 0;
        while let Some(left) = open.cache.removal_left(id) {
            open.ensure_works()?;
            open.cache.ensure_removal_ends(id)?;
            most = left.max(most);
            let what = format!("moving what SSD {id} has");
            if !progress(Progress { done: most - left, total: most, what }) {
                let why = format!(
                    "SSD {id} goes on leaving while the pool is served: the same command waits for it, --cancel keeps it"
                );
                return Err(Failure::new(FailureKind::Cancelled, why));
            }
            std::thread::sleep(WORK_PAUSE);
        }
        Ok(self.report(&*self.tag(name)?))
    }

    fn add_disk(&self, name: &str, disk: &NewCacheDisk) -> Result<DiskStats, Failure> {
        let open = self.open(name)?;
        let export = disk.export.clone();
        let export = export.ok_or_else(|| Failure::refused("the disk needs a name: write NAME=DISK"))?;
        self.ensure_free(std::slice::from_ref(&export))?;
        if disk.at.has_path() {
            ferrite_pool::ensure_no_member(&disk.at.path)?;
        }
        open.cache.add_disk(self.new_disk(export.clone(), disk)?)?;
        let found = self.stats(name)?.disks.into_iter().find(|disk| disk.export == export);
        found.ok_or_else(|| Failure::not_found(format!("the disk {export:?} left the cache {name:?}")))
    }

    /// Removes a cache. Its dirty data is written to the disks first, unless `lose` names it.
    fn remove(&self, name: &str, lose: Option<u64>, progress: ProgressCall<'_>) -> Result<(), Failure> {
        let state = self.report(&*self.tag(name)?).state;
        if lose.is_none() && state != CacheState::Incomplete {
            // A cache that cannot be opened or cleaned is refused below, if anything is dirty.
            match self.open(name).and_then(|open| open.clean(progress)) {
                Err(failure) if failure.kind == FailureKind::Cancelled => return Err(failure),
                _ => {}
            }
        }
        let pool = Arc::clone(&self.pool);
        self.while_closed(name, |options| remove_cache(&pool, name, options, lose))
    }

    fn forget(&self, name: &str, lose: u64) -> Result<ForgottenContent, Failure> {
        let scope = if lose == 0 { ForgetScope::Clean } else { ForgetScope::Lose(lose) };
        let pool = Arc::clone(&self.pool);
        let missed = self.while_closed(name, |options| forget_cache(&pool, name, options, scope))?;
        Ok(ForgottenContent { report: self.report(&*self.tag(name)?), missed })
    }
}

#[cfg(test)]
mod tests;
