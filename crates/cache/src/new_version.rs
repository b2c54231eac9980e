//! How a version of a block enters the cache: it is stored into a slot, and becomes the newest one (CA2, CA8).

use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use crate::buffer_set::{SlotGrant, SlotUse};
use crate::cache_core::CacheCore;
use crate::cache_index::IndexShard;
use crate::page_word::{BlockKey, PageRef, PageWord};
use crate::write_buffer::SlotHeader;

/// The condition under which a version becomes the newest one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expected {
    /// None.
    Any,
    /// This version is the newest one.
    Version(PageRef),
    /// There is none, and the block did not change since this read of the disk began; ends the read.
    Fill,
}

/// A new version of a block.
pub(crate) struct NewVersion<'a> {
    pub key: BlockKey,
    pub dirty: bool,
    pub hits: u8,
    pub data: &'a [u8],
}

impl CacheCore {
    /// Grants a slot. Returns `None` if no buffer is free: the worker is sealing.
    pub fn take_slot(&self, slot_use: SlotUse, is_worker: bool) -> Option<SlotGrant> {
        let _storing = self.storing();
        let grant = self.buffers.take(slot_use, is_worker, |buffer, epoch| {
            self.memory.set_buffer_epoch(buffer, epoch);
            self.memory.memory().fence();
        });
        if grant.is_none() {
            self.worker_event.signal();
        }
        grant
    }

    /// Ends a grant that was used, or not.
    pub fn finish_slot(&self, grant: SlotGrant) {
        if self.buffers.finish(grant) {
            self.worker_event.signal();
        }
    }

    /// Stores `version` into the slot of `grant`, and makes it the newest version of its block if `expected` holds (CA2).
    /// Returns true if it did. The caller ends the grant.
    pub fn publish(&self, grant: SlotGrant, version: &NewVersion<'_>, expected: Expected) -> bool {
        let _storing = self.storing();
        let sum = self.memory.store_slot_data(grant.slot, version.data);
        let mut shard = self.index.lock(version.key);
        self.publish_locked(&mut shard, grant, version, sum, expected)
    }

    /// Does the second part of [`Self::publish`], behind the lock of the block's shard.
    fn publish_locked(
        &self,
        shard: &mut IndexShard,
        grant: SlotGrant,
        version: &NewVersion<'_>,
        sum: u32,
        expected: Expected,
    ) -> bool {
        let key = version.key;
        let holds = match expected {
            Expected::Any => true,
            Expected::Version(page) => self.find(shard, key) == Some(page),
            Expected::Fill => {
                let may_enter = shard.end_fill(key) || planted!("cache: a fill enters after a later write");
                may_enter && self.find(shard, key).is_none()
            }
        };
        if !holds {
            return false;
        }
        let disk = &self.disks[usize::from(key.disk())];
        let writes = disk.writes.load(Ordering::SeqCst);
        let is_fill = matches!(expected, Expected::Fill) && !version.dirty;
        let lost =
            is_fill && self.is_unflushed(key, writes) && !planted!("cache: a fill trusts writes without a flush");
        let word = PageWord { key, live: true, dirty: version.dirty, lost, hits: version.hits };
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed);
        let header = SlotHeader { sum, sequence, word, epoch: grant.epoch, is_clean: false, is_dead: false };
        self.memory.store_slot_header(grant.slot, &header);
        let state = &self.slots[grant.slot as usize];
        state.fill(word);
        if lost {
            state.through.store(writes, Ordering::Release);
        }
        if version.dirty {
            self.dirty.fetch_add(1, Ordering::Relaxed);
        }
        let page = PageRef::slot(grant.slot);
        if let Some(old) = shard.replace(key, page, |page| self.key_of(page)) {
            self.retire(old, false);
        }
        shard.overtake_fills(key);
        true
    }

    /// Returns true if no flush of the disk of `key` covers its write `number`.
    fn is_unflushed(&self, key: BlockKey, number: u64) -> bool {
        number > self.disks[usize::from(key.disk())].flushed.load(Ordering::SeqCst)
    }

    /// Drops the clean versions in `slots` that the disk may lose in a crash, because no flush covers them (CA21).
    pub fn drop_unflushed(&self, slots: &[u32]) {
        for slot in slots {
            let state = &self.slots[*slot as usize];
            let through = state.through.load(Ordering::Acquire);
            let is_durable = through == 0 || self.disks[usize::from(state.key().disk())].is_durable(through);
            if state.is_clean() && !is_durable {
                self.drop_clean(state.key(), PageRef::slot(*slot));
            }
        }
    }

    /// Changes part of a block whose newest version is in a slot: the rest is copied from there. Returns false if the
    /// newest version is not in a slot. The caller ends the grant.
    pub fn patch_slot(&self, grant: SlotGrant, key: BlockKey, offset: usize, part: &[u8], block: &mut [u8]) -> bool {
        let _storing = self.storing();
        let mut shard = self.index.lock(key);
        let Some(page) = self.find(&shard, key).filter(|page| page.is_slot()) else { return false };
        self.memory.load_slot_data(page.number(), 0, block);
        block[offset..offset + part.len()].copy_from_slice(part);
        let sum = self.memory.store_slot_data(grant.slot, block);
        let version = NewVersion { key, dirty: true, hits: 0, data: block };
        self.publish_locked(&mut shard, grant, &version, sum, Expected::Any)
    }
}
