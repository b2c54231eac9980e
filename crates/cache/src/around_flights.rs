//! Changes of a disk that are under way beside the cache: around a block, and through its slot (CA6, CA7).

use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use crate::buffer_set::SlotGrant;
use crate::cache_core::CacheCore;
use crate::cache_index::IndexShard;
use crate::page_word::{BlockKey, PageRef};

/// What the index has of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Around {
    /// The change may go around the cache. True if a mark has to be durable first.
    Begun { has_mark: bool },
    /// The block is dirty, or clean and to be kept: the change goes to the cache.
    Cached,
}

impl CacheCore {
    /// Begins a change of the disk around the cache, if `key` allows it (CA7). With `drops` a clean version is dropped.
    pub fn begin_around(&self, key: BlockKey, drops: bool) -> Around {
        let mut shard = self.index.lock(key);
        // The destager may be writing an older version that is clean by now.
        if shard.flight(key).is_some_and(|flight| flight.is_destaged) {
            return Around::Cached;
        }
        if let Some(page) = self.find(&shard, key) {
            let is_dirty = self.is_dirty(page) && !planted!("cache: a change goes around a dirty block");
            if is_dirty || !drops {
                return Around::Cached;
            }
            shard.remove(key, page);
            self.retire(page, true);
        }
        shard.overtake_fills(key);
        shard.change_flight(key, |flight| flight.arounds += 1);
        // A version that another thread dropped may be this block's.
        Around::Begun { has_mark: self.has_pending_drop() }
    }

    /// Ends it.
    pub fn end_around(&self, key: BlockKey) {
        self.index.lock(key).change_flight(key, |flight| flight.arounds -= 1);
        self.wake_waiters();
    }

    /// Notes that the version in the slot of `grant` is also being written to the disk. Returns false if it is not the
    /// newest any more: the disk must not get it behind the newer one (CA6).
    pub fn begin_through(&self, key: BlockKey, grant: SlotGrant) -> bool {
        let mut shard = self.index.lock(key);
        if !is_newest(self, &shard, key, grant) && !planted!("cache: an older version is written through") {
            return false;
        }
        shard.change_flight(key, |flight| {
            flight.is_overlapped |= flight.throughs > 0 || flight.is_destaged || flight.arounds > 0;
            flight.throughs += 1;
        });
        true
    }

    /// Ends it: if the write succeeded and no other one overlapped, the slot of `grant` is clean after the flush of the disk's write
    /// `number` (CA6).
    pub fn end_through(&self, key: BlockKey, grant: SlotGrant, number: Option<u64>) {
        let mut shard = self.index.lock(key);
        let is_alone = shard.change_flight(key, |flight| {
            flight.throughs -= 1;
            let is_alone = !flight.is_overlapped;
            flight.is_overlapped &= flight.throughs > 0;
            is_alone
        });
        let is_newest = is_newest(self, &shard, key, grant);
        if let Some(number) = number.filter(|_| is_alone && is_newest) {
            self.slots[grant.slot as usize].through.store(number, Ordering::Release);
        }
    }
}

/// Returns true if the slot of `grant` still has the newest version of `key`, whose shard is `shard`.
fn is_newest(core: &CacheCore, shard: &IndexShard, key: BlockKey, grant: SlotGrant) -> bool {
    let page = PageRef::slot(grant.slot);
    core.find(shard, key) == Some(page) && core.epoch_of(page) == grant.epoch
}
