//! Disks that join a cache and leave it while it is used.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use crate::cache::Cache;
use crate::cache_config::{DiskConfig, PendingMember};
use crate::cache_layout::{BLOCK, DISKS_MAX};
use crate::cache_members::CacheDisk;
use crate::cache_spec::{NewDisk, add_disk_member, disk_config};
use crate::cached_disk::CachedDisk;
use crate::member_stamp::read_stamp;
use crate::page_word::{BlockKey, PageRef};
use crate::{CacheError, Result};

impl Cache {
    /// Adds `disk` to the cache while it is used. Durable on return.
    ///
    /// # Errors
    /// [`CacheError::Refused`] if the disk does not fit, holds data where its stamp goes, is a member already, or its export
    /// is taken; and the errors of the pool and the disk, after which the cache is as before.
    pub fn add_disk(&self, disk: NewDisk) -> Result<()> {
        let _membership = self.membership.lock();
        self.advance_if_needed()?;
        if self.core.disks.iter().any(|known| known.config.export == disk.export) {
            return Err(CacheError::Refused(format!(
                "the cache {:?} has a disk called {:?} already",
                self.core.name, disk.export
            )));
        }
        let number = self.core.disks.free_number().ok_or_else(|| {
            CacheError::Refused(format!(
                "the cache {:?} has had {DISKS_MAX} disks since it was opened: open it again",
                self.core.name
            ))
        })?;
        let known = disk_config(number, &disk)?;
        if let Some(at) = known.stamp_at()
            && let Some(stamp) = read_stamp(&*disk.disk, at)?
            && self.core.disks.iter().any(|other| other.config.uuid == stamp.record.object)
        {
            return Err(CacheError::Refused(format!("{} is a disk of the cache already", disk.address)));
        }
        let member = PendingMember::from(&known);
        self.begin_join(member.clone(), 0)?;
        let nonce = (self.options.random)();
        let is_early = planted!("cache: the configuration names a disk before its stamp");
        if is_early {
            self.end_disk_join(&known)?;
        }
        add_disk_member(&self.pool, self.access().cache, &known, &disk.disk, nonce)
            .or_else(|error| self.give_up_join(&member, &disk.disk, error))?;
        if !is_early {
            self.end_disk_join(&known)?;
        }
        let joined = CacheDisk::new(known);
        joined.attach(disk.disk);
        self.core.disks.add(joined);
        self.disks.lock().insert(number, Arc::new(CachedDisk::new(Arc::clone(&self.core), number)));
        Ok(())
    }

    fn end_disk_join(&self, known: &DiskConfig) -> Result<()> {
        Ok(self.core.change_config(|config| {
            config.disks.push(known.clone());
            config.remove_pending(&known.uuid);
        })?)
    }

    /// Removes the disk that users open as `export`, which keeps its data. Durable on return.
    ///
    /// # Errors
    /// [`CacheError::Busy`] while a client uses the disk; [`CacheError::Refused`] for the last disk, and if dirty data of
    /// the disk is in the cache; [`CacheError::NotFound`]; and the errors of the pool.
    pub fn remove_disk(&self, export: &str) -> Result<()> {
        let _membership = self.membership.lock();
        self.advance_if_needed()?;
        let known = self.core.disks.iter().find(|disk| disk.config.export == export);
        let known = known.ok_or_else(|| self.no_disk(export))?;
        let number = known.config.number;
        if self.core.disks.iter().count() == 1 {
            return Err(CacheError::Refused(format!(
                "{export:?} is the only disk of the cache {:?}: `ferrite cache remove` removes the cache",
                self.core.name
            )));
        }
        self.close_disk(known)?;
        match self.forget_disk(known) {
            Ok(()) => Ok(()),
            Err(error) => {
                self.disks.lock().insert(number, Arc::new(CachedDisk::new(Arc::clone(&self.core), number)));
                Err(error)
            }
        }
    }

    /// Lets no client open the disk, unless one has it open.
    fn close_disk(&self, known: &CacheDisk) -> Result<()> {
        let number = known.config.number;
        let mut disks = self.disks.lock();
        // The queues for callers that wait end with it.
        let used = disks.remove(&number).and_then(|disk| Arc::try_unwrap(disk).err());
        if used.is_none() && known.queues.load(Ordering::SeqCst) == 0 {
            return Ok(());
        }
        disks.insert(number, used.unwrap_or_else(|| Arc::new(CachedDisk::new(Arc::clone(&self.core), number))));
        Err(CacheError::Busy(format!("the disk {:?} is in use: end that first", known.config.export)))
    }

    fn forget_disk(&self, known: &CacheDisk) -> Result<()> {
        let number = known.config.number;
        let dirty = self.dirty_pages_of(number) * BLOCK;
        if dirty > 0 {
            return Err(CacheError::Refused(format!(
                "{dirty} dirty bytes of the disk {:?} are in the cache: `ferrite cache clean` writes them to the disk",
                known.config.export
            )));
        }
        if !planted!("cache: a disk leaves with pages in the cache") {
            self.drop_clean_of(number)?;
        }
        let member = PendingMember::from(&known.config);
        if planted!("cache: a disk that leaves is released before it is pending") {
            self.access().release(&member, known.disk().as_ref())?;
        }
        self.core.change_config(|config| {
            config.disks.retain(|disk| disk.number != number);
            config.add_pending(member.clone());
        })?;
        let opened = known.disk();
        self.core.disks.remove(number);
        self.access().release(&member, opened.as_ref())?;
        Ok(self.core.change_config(|config| config.remove_pending(&member.uuid))?)
    }

    /// Calls `work` for each version of a block of disk `number`, or of all disks, that no client has replaced. Nothing moves
    /// between slots and tables meanwhile.
    fn for_each_version(&self, number: Option<u8>, mut work: impl FnMut(BlockKey, PageRef)) {
        let is_meant = |key: BlockKey| number.is_none_or(|number| key.disk() == number);
        let worker = self.worker.lock();
        for (slot, state) in (0..).zip(&self.core.slots) {
            if state.live.load(Ordering::Acquire) && is_meant(state.key()) {
                work(state.key(), PageRef::slot(slot));
            }
        }
        for table in worker.valid.values().map(|valid| valid.table) {
            for index in 0..self.core.memory.layout().pages() {
                let page = self.core.memory.page_ref(table, index);
                if let Some(word) = self.core.memory.page_word(page).filter(|word| word.live && is_meant(word.key)) {
                    work(word.key, page);
                }
            }
        }
    }

    fn dirty_pages_of(&self, number: u8) -> u64 {
        let mut dirty = 0;
        self.for_each_version(Some(number), |key, page| {
            let is_newest = self.core.find(&self.core.index.lock(key), key) == Some(page);
            dirty += u64::from(is_newest && self.core.is_dirty(page));
        });
        dirty
    }

    /// Drops the clean versions of blocks of disk `number`. Durable on return.
    fn drop_clean_of(&self, number: u8) -> Result<u64> {
        let mut dropped = 0;
        self.for_each_version(Some(number), |key, page| dropped += u64::from(self.core.drop_clean(key, page)));
        self.core.apply_marks()?;
        Ok(dropped)
    }

    /// Drops the clean part of the cache. Returns the bytes that were dropped. Durable on return.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn drop_clean(&self) -> Result<u64> {
        let mut dropped = 0;
        self.for_each_version(None, |key, page| dropped += u64::from(self.core.drop_clean(key, page)));
        self.core.apply_marks()?;
        self.core.worker_event.signal();
        Ok(dropped * BLOCK)
    }
}

#[cfg(test)]
mod tests;
