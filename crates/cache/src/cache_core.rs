//! The part of an open cache that all threads share: the newest version of each block, and how it changes.
//!
//! ```text
//! absent -> slot (clean or dirty) -> page of a table (clean on one SSD, dirty on two) -> clean on one -> absent
//! ```

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ferrite_disk::{Clock, ReadyEvent};
use ferrite_memory::planted;
use ferrite_pool::{ChangeGate, Result};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::buffer_set::{BufferSet, SlotGrant, SlotUse};
use crate::cache_config::NumberedConfig;
use crate::cache_counters::CacheCounters;
use crate::cache_index::{CacheIndex, IndexShard};
use crate::cache_members::{CacheSsd, DiskSet, SsdSet, SsdState};
use crate::cache_memory::CacheMemory;
use crate::cache_settings::{CachePolicy, CacheSettings};
use crate::ghost_table::GhostTable;
use crate::member_queues::OrphanQueue;
use crate::page_word::{BlockKey, HITS_MAX, PageRef, PageWord};
use crate::write_buffer::{SlotHeader, SlotState};

/// A version that a newer one replaced, and whose mark is not stored yet (CA3).
#[derive(Clone, Copy, Debug)]
struct DeadMark {
    page: PageRef,
    /// The epoch of the slot's buffer; 0 for a page of a table.
    epoch: u64,
    /// True if no newer version replaced it: the block left the cache.
    is_last: bool,
}

/// The shared part of an open cache.
pub(crate) struct CacheCore {
    pub name: String,
    pub memory: CacheMemory,
    pub index: CacheIndex,
    pub slots: Box<[SlotState]>,
    pub buffers: BufferSet,
    marks: Mutex<Vec<DeadMark>>,
    /// Held to store into tables and marks (LT2).
    stores: Mutex<()>,
    pub ghost: GhostTable,
    pub ssds: SsdSet,
    pub disks: DiskSet,
    pub config: Mutex<NumberedConfig>,
    settings: RwLock<CacheSettings>,
    pub counters: CacheCounters,
    pub clock: Arc<dyn Clock>,
    /// Dirty slots and pages.
    pub dirty: AtomicI64,
    sequence: AtomicU64,
    /// Closed while the pool stands still.
    gate: ChangeGate,
    storing: RwLock<()>,
    /// False from the end of a backup until every member has a new generation (CA12).
    pub may_write_members: AtomicBool,
    /// Wakes the worker.
    pub worker_event: ReadyEvent,
    /// The queues that wait for a buffer or for another request.
    waiters: Mutex<Vec<Weak<ReadyEvent>>>,
    /// Queues whose owner has left while requests of theirs are in flight.
    pub orphans: Mutex<Vec<OrphanQueue>>,
    /// Tables that may have no live page any more.
    empty: Mutex<Vec<u32>>,
    /// True while a user asked that all dirty pages go to the disks.
    pub clean_all: AtomicBool,
    /// Counts the failures of SSDs.
    pub failures: AtomicU32,
}

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

/// What the index has of a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Around {
    /// The change may go around the cache. True if a mark has to be durable first.
    Begun { has_mark: bool },
    /// The block is dirty, or clean and to be kept: the change goes to the cache.
    Cached,
}

/// The parts of a core.
pub(crate) struct CoreParts {
    pub memory: CacheMemory,
    pub ssds: SsdSet,
    pub disks: DiskSet,
    pub config: NumberedConfig,
    pub clock: Arc<dyn Clock>,
    pub ghost_pages: u64,
}

impl CacheCore {
    /// Returns an empty core.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the host has no descriptor left.
    pub fn new(parts: CoreParts) -> ferrite_memory::Result<Self> {
        let CoreParts { memory, ssds, disks, config, clock, ghost_pages } = parts;
        let layout = *memory.layout();
        Ok(Self {
            name: memory.lease().tag().name.clone(),
            index: CacheIndex::default(),
            slots: (0..layout.buffers * layout.pages()).map(|_| SlotState::default()).collect(),
            buffers: BufferSet::new(layout.buffers, layout.pages()),
            marks: Mutex::default(),
            stores: Mutex::default(),
            ghost: GhostTable::new(ghost_pages),
            ssds,
            disks,
            settings: RwLock::new(config.config.settings),
            config: Mutex::new(config),
            counters: CacheCounters::default(),
            clock,
            dirty: AtomicI64::new(0),
            sequence: AtomicU64::new(1),
            gate: ChangeGate::default(),
            storing: RwLock::default(),
            may_write_members: AtomicBool::new(true),
            worker_event: ReadyEvent::new()?,
            waiters: Mutex::default(),
            orphans: Mutex::default(),
            empty: Mutex::default(),
            clean_all: AtomicBool::new(false),
            failures: AtomicU32::new(0),
            memory,
        })
    }

    /// Returns the settings.
    pub fn settings(&self) -> CacheSettings {
        *self.settings.read()
    }

    /// Changes the settings in DRAM.
    pub fn set_settings(&self, settings: CacheSettings) {
        *self.settings.write() = settings;
    }

    /// Lets later sequences be greater than `sequence`.
    pub fn pass_sequence(&self, sequence: u64) {
        self.sequence.fetch_max(sequence + 1, Ordering::Relaxed);
    }

    /// Returns the right to store into the pool. Nothing waits while a caller has it (CA19).
    pub fn storing(&self) -> RwLockReadGuard<'_, ()> {
        self.gate.pass(|| self.storing.read())
    }

    /// Waits until nothing stores into the pool, and lets nothing begin (CA19).
    pub fn freeze(&self) {
        self.gate.close();
        drop(self.storing.write());
    }

    /// Lets stores continue. Members get no write before they have a new generation (CA12).
    pub fn thaw(&self) {
        self.may_write_members.store(false, Ordering::SeqCst);
        self.gate.open();
        self.worker_event.signal();
    }

    /// Returns the block of the version `page`.
    pub fn key_of(&self, page: PageRef) -> Option<BlockKey> {
        match page.is_slot() {
            true => Some(self.slots[page.number() as usize].key()),
            false => self.memory.page_word(page).map(|word| word.key),
        }
    }

    /// Returns the newest version of `key` in `shard`, which is the key's.
    pub fn find(&self, shard: &IndexShard, key: BlockKey) -> Option<PageRef> {
        shard.find(key, |page| self.key_of(page))
    }

    /// Returns true if the disk has an older version than `page`.
    pub fn is_dirty(&self, page: PageRef) -> bool {
        match page.is_slot() {
            true => self.slots[page.number() as usize].dirty.load(Ordering::Acquire),
            false => self.memory.page_word(page).is_some_and(|word| word.dirty),
        }
    }

    /// Returns the epoch of the buffer that has the slot `page`; 0 for a page of a table.
    pub fn epoch_of(&self, page: PageRef) -> u64 {
        if page.is_slot() { self.buffers.epoch_of(page.number()) } else { 0 }
    }

    /// Counts a hit of `page`.
    pub fn count_hit(&self, page: PageRef) {
        let hits = match page.is_slot() {
            true => &self.slots[page.number() as usize].hits,
            false => self.memory.page_hits(page),
        };
        let count = hits.load(Ordering::Relaxed);
        if count < HITS_MAX {
            hits.store(count + 1, Ordering::Relaxed);
        }
    }

    /// Returns true if a block that missed enters the cache.
    pub fn admits(&self, key: BlockKey) -> bool {
        let admits = match self.settings.read().policy {
            CachePolicy::Ferrite => self.ghost.note(key),
            CachePolicy::Paper | CachePolicy::Fifo => true,
        };
        if !admits {
            self.counters.not_admitted.add(1);
        }
        admits
    }

    /// Returns true if too many pages are dirty.
    pub fn is_too_dirty(&self) -> bool {
        let permille = self.settings.read().dirty_max_permille;
        let most = self.ssds.pages(self.memory.layout()) * u64::from(permille) / 1000;
        self.dirty.load(Ordering::Relaxed).max(0) as u64 > most.max(u64::from(self.memory.layout().pages()))
    }

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
            if state.is_clean() && self.is_unflushed(state.key(), state.through.load(Ordering::Acquire)) {
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

    /// Notes that `page` is not the newest version of its block any more: its mark must be stored (CA3). `is_last` says
    /// that the block left the cache. The caller holds the lock of the block's shard.
    pub fn retire(&self, page: PageRef, is_last: bool) {
        let epoch = if page.is_slot() {
            let slot = &self.slots[page.number() as usize];
            slot.live.store(false, Ordering::Release);
            if slot.dirty.swap(false, Ordering::AcqRel) {
                self.dirty.fetch_sub(1, Ordering::Relaxed);
            }
            self.buffers.epoch_of(page.number())
        } else {
            let (table, _) = self.memory.table_of(page);
            let state = self.memory.table_state(table);
            if self.is_dirty(page) {
                state.dirty.fetch_sub(1, Ordering::AcqRel);
                self.dirty.fetch_sub(1, Ordering::Relaxed);
            }
            if state.live.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.note_empty(table);
            }
            0
        };
        self.marks.lock().push(DeadMark { page, epoch, is_last });
    }

    /// Notes that the table `table` may have no live page any more.
    pub fn note_empty(&self, table: u32) {
        self.empty.lock().push(table);
        self.worker_event.signal();
    }

    /// Returns the tables that were noted.
    pub fn take_empty(&self) -> Vec<u32> {
        std::mem::take(&mut *self.empty.lock())
    }

    /// Notes a page of a table that died in a slot, before the index named it (CA3).
    pub fn mark_dead(&self, page: PageRef) {
        self.marks.lock().push(DeadMark { page, epoch: 0, is_last: false });
    }

    /// Notes a slot that recovery found to be an older version.
    pub fn mark_slot_dead(&self, slot: u32, epoch: u64) {
        self.marks.lock().push(DeadMark { page: PageRef::slot(slot), epoch, is_last: false });
    }

    /// Removes the clean version `page` of `key` from the cache, if it is the newest. Its mark is durable after
    /// [`Self::apply_marks`].
    pub fn drop_clean(&self, key: BlockKey, page: PageRef) -> bool {
        let mut shard = self.index.lock(key);
        if self.find(&shard, key) != Some(page) || self.is_dirty(page) {
            return false;
        }
        shard.remove(key, page);
        self.retire(page, true);
        true
    }

    /// Begins a change of the disk around the cache, if `key` allows it (CA7). With `drops` a clean version is dropped.
    pub fn begin_around(&self, key: BlockKey, drops: bool) -> Around {
        let mut shard = self.index.lock(key);
        // The destager may be writing an older version that is clean by now.
        if shard.flight(key).is_some_and(|flight| flight.is_destaged) {
            return Around::Cached;
        }
        let found = self.find(&shard, key);
        let mut has_mark = false;
        if let Some(page) = found {
            let is_dirty = self.is_dirty(page) && !planted!("cache: a change goes around a dirty block");
            if is_dirty || !drops {
                return Around::Cached;
            }
            shard.remove(key, page);
            self.retire(page, true);
            has_mark = true;
        }
        shard.overtake_fills(key);
        shard.change_flight(key, |flight| flight.arounds += 1);
        Around::Begun { has_mark }
    }

    /// Ends it.
    pub fn end_around(&self, key: BlockKey) {
        self.index.lock(key).change_flight(key, |flight| flight.arounds -= 1);
        self.wake_waiters();
    }

    /// Notes that the version in `slot` is also being written to the disk.
    pub fn begin_through(&self, key: BlockKey) {
        self.index.lock(key).change_flight(key, |flight| {
            flight.is_overlapped |= flight.throughs > 0 || flight.is_destaged || flight.arounds > 0;
            flight.throughs += 1;
        });
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
        let SlotGrant { slot, epoch } = grant;
        let page = PageRef::slot(slot);
        let is_newest = self.find(&shard, key) == Some(page) && self.epoch_of(page) == epoch;
        if let Some(number) = number.filter(|_| is_alone && is_newest) {
            self.slots[slot as usize].through.store(number, Ordering::Release);
        }
    }

    /// Makes every dead mark durable, and on a memory whose fences are not durable every version that is visible now,
    /// before its mark (CA3).
    ///
    /// # Errors
    /// The errors of a drain; then the pool refuses further changes.
    pub fn apply_marks(&self) -> Result<()> {
        let _storing = self.storing();
        let _stores = self.stores.lock();
        let marks = std::mem::take(&mut *self.marks.lock());
        let lease = self.memory.lease();
        if !self.memory.memory().fence_is_durable() {
            lease.barrier()?;
        }
        if planted!("cache: dead marks are forgotten") {
            return Ok(());
        }
        // The last version of a block dies behind the older ones: a crash must not bring one of them back (CA3).
        let (last, replaced): (Vec<DeadMark>, Vec<DeadMark>) = marks.into_iter().partition(|mark| mark.is_last);
        self.store_marks(&replaced);
        if !last.is_empty() {
            lease.drain()?;
            self.store_marks(&last);
        }
        lease.drain()
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

    /// Does `change` to tables, alone (LT2), and drains it.
    ///
    /// # Errors
    /// The errors of `change` and of a drain.
    pub fn change_tables<T>(&self, change: impl FnOnce(&CacheMemory) -> Result<T>) -> Result<T> {
        let _storing = self.storing();
        let _stores = self.stores.lock();
        let changed = change(&self.memory)?;
        self.memory.lease().drain()?;
        Ok(changed)
    }

    /// Returns the number of dirty pages as it is counted, and as slots and `tables` have it, at one instant. The worker
    /// stands still.
    pub fn dirty_counts(&self, tables: impl Iterator<Item = u32>) -> (i64, i64) {
        let _still = self.storing.write();
        let is_dirty = |slot: &&SlotState| slot.live.load(Ordering::Acquire) && slot.dirty.load(Ordering::Acquire);
        let slots = self.slots.iter().filter(is_dirty).count() as i64;
        let in_tables = tables.map(|table| i64::from(self.memory.table_state(table).dirty.load(Ordering::Acquire)));
        let there = slots + in_tables.sum::<i64>();
        (self.dirty.load(Ordering::Acquire), there)
    }

    /// Stops using `ssd`, whose pages are read from their other copies and from the disks.
    pub fn fail_ssd(&self, ssd: &CacheSsd, why: &str) {
        if ssd.set_state(SsdState::Failed, why.into(), self.clock.now_ns()) {
            self.failures.fetch_add(1, Ordering::SeqCst);
            self.worker_event.signal();
            self.wake_waiters();
        }
    }

    /// Notes an error of `ssd`, which may fail by it.
    pub fn note_ssd_error(&self, ssd: &CacheSsd, why: &str) {
        if ssd.note_error(self.clock.now_ns()) {
            self.fail_ssd(ssd, &format!("it had too many errors, the last one: {why}"));
        }
    }

    /// Stores a changed configuration. Durable on return.
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn change_config(&self, change: impl FnOnce(&mut crate::CacheConfig)) -> Result<()> {
        let _storing = self.storing();
        let mut known = self.config.lock();
        let mut changed = known.clone();
        change(&mut changed.config);
        changed.sequence += 1;
        self.memory.store_config(&changed)?;
        *known = changed;
        Ok(())
    }

    /// Frees a buffer none of whose slots counts any more (WB3).
    pub fn free_buffer(&self, buffer: u32) -> Result<()> {
        self.change_tables(|memory| {
            memory.set_buffer_epoch(buffer, 0);
            Ok(())
        })?;
        self.buffers.free(buffer);
        self.wake_waiters();
        Ok(())
    }

    /// Returns true if dirty slots cannot be sealed because too few SSDs are left for their copies.
    pub fn is_degraded(&self) -> bool {
        let writable = self.ssds.all().iter().filter(|ssd| ssd.is_writable()).count();
        writable < self.settings().copies_of(true)
    }

    /// Registers `event`, which is signalled when a buffer is free or a conflicting request has ended.
    pub fn wait_with(&self, event: &Arc<ReadyEvent>) {
        self.waiters.lock().push(Arc::downgrade(event));
    }

    /// Signals every queue that waits.
    pub fn wake_waiters(&self) {
        let waiters = std::mem::take(&mut *self.waiters.lock());
        waiters.iter().filter_map(Weak::upgrade).for_each(|event| event.signal());
    }
}
