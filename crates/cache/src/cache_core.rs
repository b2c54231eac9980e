//! The part of an open cache that all threads share: the newest version of each block, and how it changes.
//!
//! ```text
//! absent -> slot (clean or dirty) -> page of a table (clean on one SSD, dirty on two) -> clean on one -> absent
//! ```

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ferrite_disk::{Clock, ReadyEvent};
use ferrite_memory::{Error, planted};
use ferrite_pool::{ChangeGate, Result};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::bad_copies::BadCopies;
use crate::buffer_set::BufferSet;
use crate::cache_config::NumberedConfig;
use crate::cache_counters::CacheCounters;
use crate::cache_index::{CacheIndex, IndexShard};
use crate::cache_members::{CacheSsd, DiskSet, SsdSet, SsdState, is_gone};
use crate::cache_memory::CacheMemory;
use crate::cache_settings::{CachePolicy, CacheSettings};
use crate::ghost_table::GhostTable;
use crate::member_pass::MemberPass;
use crate::member_queues::OrphanQueue;
use crate::page_word::{BlockKey, HITS_MAX, PageRef};
use crate::write_buffer::SlotState;

/// A version that a newer one replaced, and whose mark is not stored yet (CA3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadMark {
    pub page: PageRef,
    /// The epoch of the slot's buffer; 0 for a page of a table.
    pub epoch: u64,
    /// The block, if no newer version replaced this one: the block left the cache.
    pub dropped: Option<BlockKey>,
}

/// The shared part of an open cache.
pub(crate) struct CacheCore {
    pub name: String,
    pub memory: CacheMemory,
    pub index: CacheIndex,
    pub slots: Box<[SlotState]>,
    pub buffers: BufferSet,
    pub marks: Mutex<Vec<DeadMark>>,
    /// Marks of blocks that left the cache, until they are durable.
    pub pending_drops: AtomicUsize,
    /// Held to store into tables and marks (LT2).
    pub stores: Mutex<()>,
    pub ghost: GhostTable,
    /// Copies that are not read any more.
    pub bad: BadCopies,
    pub ssds: SsdSet,
    pub disks: DiskSet,
    pub config: Mutex<NumberedConfig>,
    settings: RwLock<CacheSettings>,
    pub counters: CacheCounters,
    pub clock: Arc<dyn Clock>,
    /// Dirty slots and pages.
    pub dirty: AtomicI64,
    pub sequence: AtomicU64,
    /// Closed while the pool stands still.
    gate: ChangeGate,
    storing: RwLock<()>,
    pub member_pass: MemberPass,
    /// Wakes the worker.
    pub worker_event: ReadyEvent,
    /// The queues that wait for a buffer or for another request.
    waiters: Mutex<Vec<Weak<ReadyEvent>>>,
    /// Queues whose owner has left while requests of theirs are in flight.
    pub orphans: Mutex<Vec<OrphanQueue>>,
    /// Tables that may have no live page any more.
    pub empty: Mutex<BTreeSet<u32>>,
    /// True while a user asked that all dirty pages go to the disks.
    pub clean_all: AtomicBool,
    /// Counts the failures of SSDs.
    pub failures: AtomicU32,
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
            pending_drops: AtomicUsize::new(0),
            stores: Mutex::default(),
            ghost: GhostTable::new(ghost_pages),
            bad: BadCopies::default(),
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
            member_pass: MemberPass::default(),
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
        if planted!("cache: a store does not wait while the pool stands still") {
            return self.storing.read();
        }
        self.gate.pass(|| self.storing.read())
    }

    /// Waits until nothing stores into the pool, and lets nothing begin (CA19).
    pub fn freeze(&self) {
        self.gate.close();
        drop(self.storing.write());
    }

    /// Lets stores continue. Members get no write before they have a new generation (CA12).
    pub fn thaw(&self) {
        self.member_pass.note_copy();
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
        self.leave_ssd(ssd, SsdState::Failed, why);
    }

    fn leave_ssd(&self, ssd: &CacheSsd, state: SsdState, why: &str) {
        if ssd.is_readable() && ssd.set_state(state, why.into(), self.clock.now_ns()) {
            self.failures.fetch_add(1, Ordering::SeqCst);
            self.worker_event.signal();
            self.wake_waiters();
        }
    }

    /// Notes that a request to `ssd` failed. The SSD is missing if it cannot be reached any more, and has failed after too
    /// many errors, or at once after a failed flush, because the host may have forgotten what that lost.
    pub fn note_ssd_error(&self, ssd: &CacheSsd, error: &Error, of_flush: bool) {
        if is_gone(error) {
            self.leave_ssd(ssd, SsdState::Missing, &error.to_string());
        } else if of_flush {
            self.fail_ssd(ssd, &format!("a flush failed: {error}"));
        } else {
            ssd.error_count.fetch_add(1, Ordering::Relaxed);
            self.weigh_ssd_error(ssd, &error.to_string());
        }
    }

    /// Weighs an error of `ssd`, which may fail by it: a request that failed, or a page that did not match its sum.
    pub fn weigh_ssd_error(&self, ssd: &CacheSsd, why: &str) {
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

    /// Returns true if too few SSDs are left for the copies of dirty pages, also if each one comes back that is missing for
    /// less than the grace.
    pub fn lacks_ssds(&self, now_ns: u64) -> bool {
        let settings = self.settings();
        let may_return = |ssd: &CacheSsd| {
            ssd.state().0 == SsdState::Missing && now_ns.saturating_sub(ssd.since_ns()) < settings.grace_ns
        };
        let usable = self.ssds.all().iter().filter(|ssd| ssd.is_writable() || may_return(ssd)).count();
        usable < settings.copies_of(true)
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

/// Returns true if no thread holds a lock that clients' requests take (CA16).
#[cfg(test)]
pub(crate) fn is_unlocked(core: &CacheCore) -> bool {
    let is_storing = core.storing.is_locked() || core.stores.is_locked() || core.config.is_locked();
    !is_storing && !core.marks.is_locked() && !core.settings.is_locked() && core.index.is_unlocked()
}
