//! Marks of versions that do not count any more: which are waiting, and when they become durable (CA3).

use std::collections::{BTreeSet, HashSet};
use std::sync::atomic::Ordering;

use ferrite_memory::planted;
use ferrite_pool::Result;

use crate::cache_core::{CacheCore, DeadMark};
use crate::page_word::{BlockKey, PageRef, PageWord};

impl CacheCore {
    /// Notes that `page` is not the newest version of its block any more: its mark must be stored (CA3). `is_last` says
    /// that the block left the cache. The caller holds the lock of the block's shard. The page ends last of all: the
    /// worker, which has no such lock, uses the place of pages that have ended again.
    pub fn retire(&self, page: PageRef, is_last: bool) {
        let dropped = if is_last { self.key_of(page) } else { None };
        let mark = DeadMark { page, epoch: self.epoch_of(page), dropped };
        if page.is_slot() {
            let slot = &self.slots[page.number() as usize];
            if slot.dirty.swap(false, Ordering::AcqRel) {
                self.dirty.fetch_sub(1, Ordering::Relaxed);
            }
            note_mark(self, mark);
            slot.live.store(false, Ordering::Release);
            return;
        }
        let (table, _) = self.memory.table_of(page);
        let state = self.memory.table_state(table);
        if self.is_dirty(page) {
            state.dirty.fetch_sub(1, Ordering::AcqRel);
            self.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        self.bad.forget(page);
        note_mark(self, mark);
        if state.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.note_empty(table);
        }
    }

    /// Returns true if a block left the cache whose mark is not durable yet (CA7).
    pub fn has_pending_drop(&self) -> bool {
        self.pending_drops.load(Ordering::SeqCst) > 0 && !planted!("cache: a change goes around a pending drop")
    }

    /// Notes that the table `table` may have no live page any more.
    pub fn note_empty(&self, table: u32) {
        self.empty.lock().insert(table);
        self.worker_event.signal();
    }

    /// Returns the tables that were noted, each once.
    pub fn take_empty(&self) -> BTreeSet<u32> {
        std::mem::take(&mut *self.empty.lock())
    }

    /// Notes a page of a table that died in a slot, before the index named it (CA3); `dropped` is its block, if that left
    /// the cache.
    pub fn mark_dead(&self, page: PageRef, dropped: Option<BlockKey>) {
        note_mark(self, DeadMark { page, epoch: 0, dropped });
    }

    /// Notes a slot that recovery found to be an older version.
    pub fn mark_slot_dead(&self, slot: u32, epoch: u64) {
        self.marks.lock().push(DeadMark { page: PageRef::slot(slot), epoch, dropped: None });
    }

    /// Removes the clean version `page` of `key` from the cache, if it is the newest. Its mark is durable after
    /// [`Self::apply_marks`].
    pub fn drop_clean(&self, key: BlockKey, page: PageRef) -> bool {
        drop_version(self, key, page, false)
    }

    /// Makes every dead mark durable, and on a memory whose fences are not durable every version that is visible now,
    /// before its mark (CA3).
    ///
    /// # Errors
    /// The errors of a drain; then the pool refuses further changes.
    pub fn apply_marks(&self) -> Result<()> {
        let _storing = self.storing();
        let _stores = self.stores.lock();
        store_all_marks(self)
    }

    fn store_marks(&self, marks: &[DeadMark]) {
        for mark in marks {
            if mark.page.is_slot() {
                self.memory.set_slot_dead(mark.page.number(), mark.epoch);
            } else if let Some(word) = self.memory.page_word(mark.page) {
                self.memory.set_page_word(mark.page, PageWord { live: false, ..word });
            }
        }
    }
}

fn note_mark(core: &CacheCore, mark: DeadMark) {
    if mark.dropped.is_some() {
        core.pending_drops.fetch_add(1, Ordering::SeqCst);
    }
    core.marks.lock().push(mark);
}

/// Does [`CacheCore::apply_marks`] for a caller that stores into tables alone (LT2).
pub(crate) fn store_all_marks(core: &CacheCore) -> Result<()> {
    let marks = std::mem::take(&mut *core.marks.lock());
    let lease = core.memory.lease();
    if !core.memory.memory().fence_is_durable() {
        lease.barrier()?;
    }
    if planted!("cache: dead marks are forgotten") {
        return Ok(());
    }
    let (last, replaced): (Vec<DeadMark>, Vec<DeadMark>) = marks.into_iter().partition(|mark| mark.dropped.is_some());
    core.store_marks(&replaced);
    // The last version of a block dies behind the older ones: a crash must not bring one of them back (CA3).
    for marks in runs_of_different_blocks(&last) {
        if !planted!("cache: the last version dies before older ones") {
            lease.drain()?;
        }
        core.store_marks(marks);
    }
    lease.drain()?;
    core.pending_drops.fetch_sub(last.len(), Ordering::SeqCst);
    Ok(())
}

/// Removes the dirty version `page` of `key` from the cache, which the user gives up, if it is the newest. Its mark is
/// durable after [`CacheCore::apply_marks`].
pub(crate) fn give_up_dirty(core: &CacheCore, key: BlockKey, page: PageRef) -> bool {
    drop_version(core, key, page, true)
}

fn drop_version(core: &CacheCore, key: BlockKey, page: PageRef, is_dirty: bool) -> bool {
    let mut shard = core.index.lock(key);
    if core.find(&shard, key) != Some(page) || core.is_dirty(page) != is_dirty {
        return false;
    }
    shard.remove(key, page);
    core.retire(page, true);
    true
}

/// Divides marks of dropped versions so that no run has two of one block, which may have been dropped twice.
fn runs_of_different_blocks(marks: &[DeadMark]) -> Vec<&[DeadMark]> {
    let (mut runs, mut first, mut known) = (Vec::new(), 0, HashSet::new());
    for (index, mark) in marks.iter().enumerate() {
        if !known.insert(mark.dropped) {
            runs.push(&marks[first..index]);
            first = index;
            known = HashSet::from([mark.dropped]);
        }
    }
    if first < marks.len() {
        runs.push(&marks[first..]);
    }
    runs
}
