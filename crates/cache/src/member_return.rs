//! Members that come back: by themselves if they were missing, and by the user's word if they failed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferrite_disk::Disk;
use ferrite_memory::planted;
use ferrite_pool::disk_stamp::DiskStamp;
use ferrite_pool::tie::{PoolSide, TieVerdict};

use crate::cache::Cache;
use crate::cache_config::SsdConfig;
use crate::cache_layout::BLOCK;
use crate::cache_members::{CacheDisk, CacheSsd, SsdState};
use crate::cache_spec::is_empty;
use crate::fingerprint::{chosen_blocks, difference};
use crate::member_stamp::STAMP_BYTES;
use crate::open_members::{FoundMember, mismatch};
use crate::{CacheError, Result};

/// The time between two looks for missing members.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// How an SSD came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SsdReturn {
    /// With all that it held.
    WithContent,
    /// Empty.
    Empty,
}

impl Cache {
    /// Uses the SSD `id` again, which failed or is missing: with its content if its stamp is right, else empty. Durable on
    /// return. `lose` names the dirty bytes that are only on an SSD that comes back empty.
    ///
    /// # Errors
    /// [`CacheError::Busy`] while the SSD has requests that it did not end; [`CacheError::Refused`] if it is in use, does
    /// not answer, belongs to another cache or copy of the pool, or would lose dirty data that `lose` does not name.
    pub fn online(&self, id: u8, lose: Option<u64>) -> Result<SsdReturn> {
        let _membership = self.membership.lock();
        self.advance_if_needed()?;
        let ssd = self.ssd(id)?;
        if ssd.is_readable() {
            return Err(CacheError::Refused(format!("SSD {id} is in use already")));
        }
        self.ensure_ended(&ssd)?;
        let known = self.ssd_config(id)?;
        let leb_bytes = u64::from(self.core.memory.layout().leb_bytes);
        let refused = |why: String| Err(CacheError::Refused(format!("SSD {id} ({}): {why}", known.address)));
        match self.find_again(&known, &ssd) {
            FoundMember::Good(disk) => {
                self.attach_ssd(&ssd, disk)?;
                Ok(SsdReturn::WithContent)
            }
            FoundMember::Missing(why) | FoundMember::Shrunk(why) => refused(why),
            FoundMember::Other(disk, verdict) => match verdict {
                TieVerdict::Absent if !is_empty(&*disk, STAMP_BYTES.min(leb_bytes))? => refused(
                    "it holds other data: remove it by `ferrite cache remove-ssd` and add it as a new one".into(),
                ),
                TieVerdict::Absent | TieVerdict::PoolLater => {
                    if planted!("cache: an SSD has its stamp before the tables forget it") {
                        self.stamp_empty(&known, &disk)?;
                    }
                    self.empty_ssd(&ssd, lose)?;
                    self.stamp_empty(&known, &disk)?;
                    self.attach_ssd(&ssd, disk)?;
                    Ok(SsdReturn::Empty)
                }
                _ => refused(mismatch(verdict)),
            },
        }
    }

    /// Refuses while a request to the SSD may still change it (CA11).
    fn ensure_ended(&self, ssd: &CacheSsd) -> Result<()> {
        let mut worker = self.worker.lock();
        worker.end_requests()?;
        let open = ssd.in_flight.load(Ordering::SeqCst) + ssd.abandoned.load(Ordering::SeqCst);
        let is_open = open > 0 && !planted!("cache: an SSD comes back while it may still write");
        if !is_open && !worker.is_sealing_to(ssd.id) {
            return Ok(());
        }
        Err(CacheError::Busy(format!("SSD {} has not ended {open} requests: try again when it has", ssd.id)))
    }

    fn ssd_config(&self, id: u8) -> Result<SsdConfig> {
        let config = self.core.config.lock();
        let known = config.config.ssds.iter().find(|known| known.id == id).cloned();
        known.ok_or_else(|| CacheError::NotFound(format!("SSD {id} left the cache {:?}", self.core.name)))
    }

    /// Looks for an SSD by its address, and where it was open if it still answers there.
    fn find_again(&self, known: &SsdConfig, ssd: &CacheSsd) -> FoundMember {
        let access = self.access();
        match (access.find_ssd(known), ssd.disk()) {
            // A file that is still open here may be locked against a second opening.
            (FoundMember::Missing(_), Some(disk)) => access.advance_found_ssd(known, disk),
            (found, _) => found,
        }
    }

    /// Lets no table name `ssd`.
    fn empty_ssd(&self, ssd: &CacheSsd, lose: Option<u64>) -> Result<()> {
        let mut worker = self.worker.lock();
        let dirty = worker.dirty_only_on(ssd.id) * BLOCK;
        if dirty > 0 && lose != Some(dirty) {
            return Err(CacheError::Refused(format!(
                "SSD {} comes back empty, and {dirty} dirty bytes were only there: --lose {dirty} loses them",
                ssd.id
            )));
        }
        if planted!("cache: an SSD comes back empty while tables name it") {
            return Ok(());
        }
        Ok(worker.forget_copies(ssd.id)?)
    }

    /// Writes a stamp to an SSD whose content nothing names.
    fn stamp_empty(&self, known: &SsdConfig, disk: &Arc<dyn Disk>) -> Result<()> {
        DiskStamp::erase(&**disk, 0)?;
        self.pool.member_tie(known.uuid).set_previous(None)?;
        match self.access().advance_found_ssd(known, Arc::clone(disk)) {
            FoundMember::Good(_) => Ok(()),
            FoundMember::Missing(why) | FoundMember::Shrunk(why) => Err(CacheError::Refused(why)),
            FoundMember::Other(_, verdict) => Err(CacheError::Refused(mismatch(verdict))),
        }
    }

    /// Uses `disk` as `ssd`. Durable on return.
    fn attach_ssd(&self, ssd: &CacheSsd, disk: Arc<dyn Disk>) -> Result<()> {
        let mut worker = self.worker.lock();
        let has_failed = self.ssd_config(ssd.id)?.failed.is_some();
        if has_failed {
            self.change_ssd(ssd.id, |known| known.failed = None)?;
        }
        ssd.attach(disk);
        if ssd.is_writable() {
            worker.open_space(ssd);
        }
        drop(worker);
        self.core.worker_event.signal();
        self.core.wake_waiters();
        Ok(())
    }

    /// Returns true if a member is missing and was not looked for since [`LOOK_EVERY`].
    pub(crate) fn is_look_due(&self) -> bool {
        let looked_ns = self.looked_ns.load(Ordering::SeqCst);
        let is_missing = |ssd: &Arc<CacheSsd>| ssd.state().0 == SsdState::Missing;
        self.core.clock.now_ns().saturating_sub(looked_ns) >= LOOK_EVERY.as_nanos() as u64
            && (self.core.ssds.all().iter().any(is_missing) || self.core.disks.iter().any(CacheDisk::is_missing))
    }

    /// Looks for missing members, at most every [`LOOK_EVERY`]. The caller holds [`Cache::membership`].
    pub(crate) fn look_for_members(&self) -> Result<()> {
        if !self.is_look_due() {
            return Ok(());
        }
        let now_ns = self.core.clock.now_ns();
        self.looked_ns.store(now_ns, Ordering::SeqCst);
        let missing = self.core.ssds.all().into_iter().filter(|ssd| ssd.state().0 == SsdState::Missing);
        for ssd in missing {
            match self.ensure_ended(&ssd) {
                Err(CacheError::Busy(_)) => continue,
                ended => ended?,
            }
            let known = self.ssd_config(ssd.id)?;
            match self.access().find_ssd(&known) {
                FoundMember::Good(disk) => self.attach_ssd(&ssd, disk)?,
                FoundMember::Missing(_) => {}
                FoundMember::Shrunk(why) => _ = ssd.set_state(SsdState::Failed, why, now_ns),
                FoundMember::Other(_, verdict) => _ = ssd.set_state(SsdState::Failed, mismatch(verdict), now_ns),
            }
        }
        for disk in self.core.disks.iter().filter(|disk| disk.is_missing()) {
            match self.access().find_disk(&disk.config) {
                FoundMember::Good(found) => {
                    // No client changes a block of a disk that is missing.
                    let blocks = {
                        let worker = self.worker.lock();
                        chosen_blocks(&self.core, worker.valid.values().map(|valid| valid.table), disk.config.number)
                    };
                    match difference(&blocks, &disk.config, &*found) {
                        None => disk.attach(found),
                        Some(why) => disk.refuse(why),
                    }
                }
                FoundMember::Missing(_) => {}
                FoundMember::Shrunk(why) => disk.refuse(why),
                FoundMember::Other(_, verdict) => disk.refuse(mismatch(verdict)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
