//! SSDs that join a cache, and SSDs and disks that leave it while it is used.
//!
//! A change of the members happens in the order of `pending_members`. It needs the pool and the members, so the caller of
//! [`Cache::step`] ends a removal, and not the worker.
//!
//! - CM1. The configuration names an SSD only while the pool lists it and it has a stamp. Tables name an SSD only while the
//!   configuration does.
//! - CM2. The configuration has the number of tables before a table that was added is used.
//! - CM3. A removed SSD leaves the configuration when no table names it, no request reads it, and no LEB of it is being
//!   written.
//! - CM4. One thread at a time changes the members or moves their ties: the one that holds [`Cache::membership`].
//! - CM5. A disk leaves the configuration when it has no page in the cache, durably. Its number is used again only when the
//!   cache is opened again: then nothing names the disk.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use crate::bad_copies::{PageAccess, UnreadableBlock};
use crate::cache::Cache;
use crate::cache_config::{PendingMember, SsdConfig};
use crate::cache_core::CacheCore;
use crate::cache_layout::{BLOCK, SSDS_MAX};
use crate::cache_members::{CacheSsd, SsdState};
use crate::cache_spec::{NewSsd, add_ssd_member, ensure_may_lose, lebs_of};
use crate::leaving::give_up;
use crate::member_stamp::read_stamp;
use crate::page_word::BlockKey;
use crate::{CacheError, Result};

impl Cache {
    /// Adds `ssd` to the cache while it is used. Returns its number. Durable on return. `lose` names the bytes of an SSD
    /// that may hold data.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if the SSD does not fit, is a member already or may hold data; and the errors of the pool
    /// and the SSD, after which the cache is as before.
    pub fn add_ssd(&self, ssd: NewSsd, lose: Option<u64>) -> Result<u8> {
        let _membership = self.membership.lock();
        self.advance_if_needed()?;
        let config = self.core.config.lock().config.clone();
        if usize::from(config.next_ssd) >= SSDS_MAX {
            return Err(CacheError::Refused(format!(
                "the cache {:?} has had {SSDS_MAX} SSDs, and their numbers are not used again: make a new cache",
                self.core.name
            )));
        }
        if let Some(stamp) = read_stamp(&*ssd.disk, 0)?
            && config.ssds.iter().any(|known| known.uuid == stamp.record.object)
        {
            return Err(CacheError::Refused(format!("{} is an SSD of the cache already", ssd.address)));
        }
        let lebs = lebs_of(&ssd, self.core.memory.layout().leb_bytes.into())?;
        ensure_may_lose(std::slice::from_ref(&ssd), lose)?;
        let NewSsd { address, disk, uuid } = ssd;
        let known =
            SsdConfig { id: config.next_ssd, uuid, address, lebs, failed: None, leaves: false, written_bytes: 0 };
        let all = config.ssds.iter().map(|known| u64::from(known.lebs - 1)).sum::<u64>() + u64::from(lebs - 1);
        self.begin_join(PendingMember::from(&known), all.max(config.tables.into()))?;
        let stamped = |cache: &Self| {
            let access = cache.access();
            let nonce = (cache.options.random)();
            add_ssd_member(&cache.pool, access.cache, &known, access.leb_bytes, &disk, nonce)
        };
        if planted!("cache: the configuration names an SSD before its stamp") {
            self.end_ssd_join(&known)?;
            stamped(self)?;
        } else {
            stamped(self).or_else(|error| self.give_up_join(&PendingMember::from(&known), &disk, error))?;
            self.end_ssd_join(&known)?;
        }
        let joined = Arc::new(CacheSsd::new(&known));
        joined.attach(disk);
        let mut worker = self.worker.lock();
        worker.open_space(&joined);
        self.core.ssds.add(joined);
        drop(worker);
        self.core.worker_event.signal();
        Ok(known.id)
    }

    /// Lists `member` as pending (MP1), with `tables` tables (CM2).
    pub(crate) fn begin_join(&self, member: PendingMember, tables: u64) -> Result<()> {
        let before = self.core.config.lock().config.tables;
        let tables = u32::try_from(tables).expect("all SSDs of a cache have fewer than 2^32 LEBs");
        if tables > before {
            let _storing = self.core.storing();
            self.core.memory.widen(tables)?;
        }
        self.core.change_config(|config| {
            config.add_pending(member);
            config.tables = config.tables.max(tables);
        })?;
        if tables > before {
            self.worker.lock().add_tables(before..tables);
        }
        Ok(())
    }

    fn end_ssd_join(&self, known: &SsdConfig) -> Result<()> {
        Ok(self.core.change_config(|config| {
            config.ssds.push(known.clone());
            config.next_ssd = known.id + 1;
            config.remove_pending(&known.uuid);
        })?)
    }

    /// Releases a member whose joining failed with `error`.
    pub(crate) fn give_up_join(
        &self,
        member: &PendingMember,
        disk: &Arc<dyn ferrite_disk::Disk>,
        error: CacheError,
    ) -> Result<()> {
        self.access().release(member, Some(disk))?;
        self.core.change_config(|config| config.remove_pending(&member.uuid))?;
        Err(error)
    }

    /// Begins to remove the SSD `id`: its dirty pages and its hot pages move to the other SSDs. [`Cache::step`] does the
    /// rest, also after the cache was opened again. Durable on return. `lose` names the dirty bytes of this SSD that no SSD
    /// gives.
    ///
    /// # Errors
    /// [`CacheError::NotFound`]; [`CacheError::Refused`] if too few SSDs would be left, or if dirty blocks of this SSD cannot
    /// be read and `lose` does not name their bytes.
    pub fn remove_ssd(&self, id: u8, lose: Option<u64>) -> Result<()> {
        let _membership = self.membership.lock();
        let ssd = self.ssd(id)?;
        let mut worker = self.worker.lock();
        let others = self.core.ssds.all().iter().filter(|other| other.id != id && other.is_writable()).count();
        let needed = self.core.settings().copies_of(false);
        if others < needed {
            return Err(CacheError::Refused(format!(
                "the cache {:?} needs {needed} SSDs that are in use besides SSD {id}, and has {others}: add one first",
                self.core.name
            )));
        }
        let unreadable = self.core.unreadable_blocks(Some(id));
        let loses =
            lose == Some(bytes_of(&unreadable)) || planted!("cache: a removal of an SSD does not ask for dirty data");
        if !loses {
            ensure_readable(&self.core, &ssd, &unreadable)?;
        }
        self.change_ssd(id, |known| known.leaves = true)?;
        ssd.set_leaves(true);
        worker.close_space(id);
        if !unreadable.is_empty() {
            give_up(&mut worker, &ssd, &unreadable)?;
        }
        self.core.worker_event.signal();
        Ok(())
    }

    /// Refuses to wait for the removal of the SSD `id` if it cannot end without a loss.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if the SSD has dirty blocks that no SSD gives.
    pub fn ensure_removal_ends(&self, id: u8) -> Result<()> {
        let Some(ssd) = self.core.ssds.get(id) else { return Ok(()) };
        let _worker = self.worker.lock();
        ensure_readable(&self.core, &ssd, &self.core.unreadable_blocks(Some(id)))
    }

    /// Keeps the SSD `id`, which was being removed. Durable on return.
    ///
    /// # Errors
    /// [`CacheError::NotFound`], also if the removal has ended; [`CacheError::Refused`] if it is not being removed.
    pub fn cancel_removal(&self, id: u8) -> Result<()> {
        let _membership = self.membership.lock();
        let ssd = self.ssd(id)?;
        let mut worker = self.worker.lock();
        if !ssd.leaves.load(Ordering::SeqCst) {
            return Err(CacheError::Refused(format!("SSD {id} is not being removed")));
        }
        self.change_ssd(id, |known| known.leaves = false)?;
        ssd.set_leaves(false);
        if ssd.is_writable() {
            worker.open_space(&ssd);
        }
        self.core.worker_event.signal();
        Ok(())
    }

    /// Returns the bytes that have to leave the SSD `id` before its removal ends; `None` if it is not being removed.
    pub fn removal_left(&self, id: u8) -> Option<u64> {
        let ssd = self.core.ssds.get(id).filter(|ssd| ssd.leaves.load(Ordering::SeqCst))?;
        Some(self.worker.lock().left_on(ssd.id) as u64 * u64::from(self.core.memory.layout().leb_bytes))
    }

    /// Ends the removals of SSDs that nothing names any more (CM3). The caller holds [`Cache::membership`].
    pub(crate) fn end_removals(&self) -> Result<()> {
        for ssd in self.core.ssds.all().into_iter().filter(|ssd| ssd.leaves.load(Ordering::SeqCst)) {
            let worker = self.worker.lock();
            if worker.left_on(ssd.id) > 0 {
                continue;
            }
            let member = {
                let config = self.core.config.lock();
                let known = config.config.ssds.iter().find(|known| known.id == ssd.id);
                PendingMember::from(known.expect("an SSD of the cache is in its configuration"))
            };
            if planted!("cache: an SSD that leaves is released before it is pending") {
                self.access().release(&member, ssd.disk().as_ref())?;
            }
            self.core.change_config(|config| {
                config.ssds.retain(|known| known.id != ssd.id);
                config.add_pending(member.clone());
            })?;
            self.core.ssds.remove(ssd.id);
            drop(worker);
            // An SSD that failed loses its stamp too, if it answers.
            let disk = ssd.disk().or_else(|| self.options.opener.open(&member.address).ok());
            ssd.set_state(SsdState::Missing, "it left the cache".into(), self.core.clock.now_ns());
            self.access().release(&member, disk.as_ref())?;
            self.core.change_config(|config| config.remove_pending(&member.uuid))?;
            ssd.detach();
        }
        Ok(())
    }

    /// Returns the SSD `id`.
    pub(crate) fn ssd(&self, id: u8) -> Result<Arc<CacheSsd>> {
        self.core.ssds.get(id).ok_or_else(|| {
            CacheError::NotFound(format!("the cache {:?} has no SSD with the number {id}", self.core.name))
        })
    }

    /// Changes the configuration of the SSD `id`. Durable on return.
    pub(crate) fn change_ssd(&self, id: u8, change: impl FnOnce(&mut SsdConfig)) -> Result<()> {
        Ok(self.core.change_config(|config| {
            if let Some(known) = config.ssds.iter_mut().find(|known| known.id == id) {
                change(known);
            }
        })?)
    }
}

/// Refuses if there are `unreadable` blocks, which have a copy on `ssd`.
fn ensure_readable(core: &CacheCore, ssd: &CacheSsd, unreadable: &[UnreadableBlock]) -> Result<()> {
    if unreadable.is_empty() {
        return Ok(());
    }
    let bytes = bytes_of(unreadable);
    let keys: Vec<BlockKey> = unreadable.iter().map(|block| block.key).collect();
    let (where_now, way_out) = if !ssd.is_readable() {
        let why = format!("on no SSD that can be read ({})", ssd.state().1);
        (why, "bring it back by `ferrite cache online`, overwrite them")
    } else if unreadable.iter().any(|block| block.access == PageAccess::Away) {
        ("no SSD that is in use has a right copy of them".into(), "bring the missing SSD back, overwrite them")
    } else {
        ("no SSD has a right copy of them".into(), "overwrite them")
    };
    Err(CacheError::Refused(format!(
        "{bytes} dirty bytes are on SSD {}, and {where_now}; they are {}: {way_out}, or lose them by \
         `ferrite cache remove-ssd --lose {bytes}`",
        ssd.id,
        core.show_blocks(&keys)
    )))
}

fn bytes_of(blocks: &[UnreadableBlock]) -> u64 {
    blocks.len() as u64 * BLOCK
}

#[cfg(test)]
mod tests;
