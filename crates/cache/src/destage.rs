//! Destaging: dirty pages go to their disk, sorted, and are clean afterwards.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::{Access, Op};
use ferrite_memory::{Error, Span, planted};
use ferrite_pool::Result;

use crate::bad_copies::PageAccess;
use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_worker::{CacheWorker, WorkerPart};
use crate::destage_rate::IDLE_NS;
use crate::member_queues::{Member, MemberRequest};
use crate::page_word::{BlockKey, LebPlace, PageRef, PageWord};

/// Pages of a batch at most.
const BATCH_PAGES: usize = 1024;
/// Tables that are searched for a batch at most.
const WINDOW_TABLES: usize = 64;
/// Blocks of one write of a disk at most.
const RUN_BLOCKS: usize = 256;
/// Writes of a disk in flight, and while clients use it.
const DEPTH: usize = 16;
const DEPTH_BESIDE_CLIENTS: usize = 2;
/// Writes of a disk between two flushes while clients use it: a read waits for no more of them in the disk's own cache.
/// If most of the dirty pages that there may be are dirty, the disk sorts more of them, and reads wait longer.
const UNFLUSHED_BESIDE_CLIENTS: usize = 4;
/// The time after a client's request in which a disk counts as used, in nanoseconds.
const USED_NS: u64 = 100_000_000;
/// The time between two searches for old dirty pages, in nanoseconds.
const AGE_SEARCH_NS: u64 = 100_000_000;

/// A page of a batch.
struct DestageItem {
    key: BlockKey,
    page: PageRef,
    /// The epoch of the slot's buffer, because the buffer may be filled again; 0 for a page of a table.
    epoch: u64,
    data: Option<Vec<u8>>,
    is_written: bool,
}

/// Pages on their way to the disks.
pub(crate) struct DestageBatch {
    items: Vec<DestageItem>,
    /// Requests in flight.
    open: usize,
    /// The first item that is not being written.
    next: usize,
    /// Writes that no flush covers.
    unflushed: usize,
    has_failed: bool,
    /// The flushes of all disks that had failed when the batch began.
    failures: u64,
}

impl CacheWorker {
    /// Returns how many pages of tables should go now.
    fn wanted(&mut self, now_ns: u64) -> usize {
        let dirty = self.core.dirty.load(Ordering::Relaxed).max(0) as u64;
        let settings = self.core.settings();
        let dirty_max = dirty_max(&self.core);
        self.rate.pass(now_ns, dirty, dirty_max, settings.destage_rate);
        if dirty == 0 {
            return 0;
        }
        let is_all =
            self.core.clean_all.load(Ordering::SeqCst) || self.core.lacks_ssds(now_ns) || self.needs_clean_victim();
        if is_all || dirty > dirty_max {
            return BATCH_PAGES;
        }
        if settings.destage_rate == Some(0) {
            return 0;
        }
        let used_ns = self.core.disks.iter().map(|disk| disk.used_ns.load(Ordering::Relaxed)).max().unwrap_or(0);
        let is_idle = now_ns.saturating_sub(used_ns) >= IDLE_NS && settings.destage_rate.is_none();
        if is_idle || self.has_old_page(now_ns, settings.dirty_age_ns) {
            return BATCH_PAGES;
        }
        self.rate.pages(BATCH_PAGES)
    }

    /// Returns true if a page is dirty for longer than `age_ns`, unless `age_ns` is 0. All tables may have to be searched,
    /// so a search that finds none is not repeated soon.
    fn has_old_page(&mut self, now_ns: u64, age_ns: u64) -> bool {
        if age_ns == 0 || now_ns < self.next_age_ns {
            return false;
        }
        let has_dirty = |table: u32| self.core.memory.table_state(table).dirty.load(Ordering::Relaxed) > 0;
        let oldest = self.valid.values().find(|valid| has_dirty(valid.table));
        let is_old = oldest.is_some_and(|valid| now_ns.saturating_sub(valid.since_ns) > age_ns);
        if !is_old {
            self.next_age_ns = now_ns + AGE_SEARCH_NS;
        }
        is_old
    }

    /// Begins a batch if no batch is under way and dirty pages should go.
    pub(crate) fn start_destage(&mut self, now_ns: u64) -> Result<()> {
        if self.destage.is_some() {
            return Ok(());
        }
        let wanted = self.wanted(now_ns).min(BATCH_PAGES);
        // No LEB takes slots while too few SSDs are there, also within the grace.
        let with_slots = self.core.clean_all.load(Ordering::SeqCst) || self.core.is_degraded();
        if (wanted == 0 && !with_slots) || now_ns < self.retry_ns {
            return Ok(());
        }
        let mut found = self.dirty_pages(wanted, with_slots);
        found.sort_unstable_by_key(|(key, _)| *key);
        let items: Vec<DestageItem> =
            found.into_iter().filter_map(|(key, page)| claim(&self.core, key, page)).collect();
        if items.is_empty() {
            return Ok(());
        }
        let has_slots = items.iter().any(|item| item.page.is_slot());
        let is_durable = self.core.memory.memory().fence_is_durable();
        if has_slots && !is_durable && !planted!("cache: a slot is destaged before it is durable") {
            // A crash must not leave an older clean version that the disk does not have any more (CA21).
            self.core.memory.lease().barrier()?;
        }
        self.rate.spend(items.len());
        self.destage = Some(DestageBatch {
            items,
            open: 0,
            next: 0,
            unflushed: 0,
            has_failed: false,
            failures: flush_failures(&self.core),
        });
        let count = self.destage.as_ref().map_or(0, |batch| batch.items.len());
        for item in 0..count {
            self.read_item(item, 0);
        }
        self.go_on_with_batch()
    }

    /// Returns about `wanted` dirty pages of the oldest tables. Dirty slots come before them, if wanted.
    fn dirty_pages(&self, wanted: usize, with_slots: bool) -> Vec<(BlockKey, PageRef)> {
        let core = &self.core;
        let mut found = Vec::new();
        if with_slots {
            for (number, slot) in (0..).zip(&core.slots) {
                let is_dirty = slot.live.load(Ordering::Acquire) && slot.dirty.load(Ordering::Acquire);
                if is_dirty && found.len() < BATCH_PAGES {
                    found.push((slot.key(), PageRef::slot(number)));
                }
            }
        }
        let dirty_of = |table: u32| core.memory.table_state(table).dirty.load(Ordering::Acquire);
        // Tables that no SSD gives now would leave no place for others.
        let can_read = |table: u32| core.access_of(table, 0) == PageAccess::Readable;
        let tables = self.valid.values().map(|valid| valid.table);
        let tables = tables.filter(|table| dirty_of(*table) > 0 && can_read(*table));
        for table in tables.take(WINDOW_TABLES) {
            if found.len() >= wanted {
                break;
            }
            for index in 0..core.memory.layout().pages() {
                let page = core.memory.page_ref(table, index);
                let Some(word) = core.memory.page_word(page) else { break };
                let can_read = core.bad.of(page) == 0 || core.copy_of(page, 0).is_some();
                if word.live && word.dirty && can_read {
                    found.push((word.key, page));
                }
            }
        }
        found.truncate(BATCH_PAGES);
        found
    }

    fn read_item(&mut self, item: usize, tried: u8) {
        let batch = self.destage.as_mut().expect("a batch is under way");
        let page = batch.items[item].page;
        if batch.items[item].data.is_some() {
            return;
        }
        let Some((copy, place)) = self.core.copy_of(page, tried) else { return };
        batch.open += 1;
        let request = self.core.page_request(place, page, 1);
        let tried = tried | 1 << copy;
        self.start(request, WorkerPart::DestageRead { item, count: 1, ssd: place.ssd, tried });
    }

    /// Handles the end of a read from an SSD.
    pub(crate) fn end_destage_read(
        &mut self,
        item: usize,
        _count: usize,
        ssd: u8,
        tried: u8,
        read: std::result::Result<Vec<u8>, Error>,
    ) -> Result<()> {
        let batch = self.destage.as_mut().expect("a batch is under way");
        batch.open -= 1;
        let page = batch.items[item].page;
        match self.core.verified(page, ssd, read.as_ref().map(Vec::as_slice)) {
            Some(good) => batch.items[item].data = Some(good.to_vec()),
            None => self.read_item(item, tried),
        }
        self.go_on_with_batch()
    }

    /// Starts what the batch can do next: writes behind the reads, a flush behind the writes, the end behind the last flush.
    fn go_on_with_batch(&mut self) -> Result<()> {
        let depth = if is_used(&self.core) { DEPTH_BESIDE_CLIENTS } else { DEPTH };
        let is_patient = depth == DEPTH_BESIDE_CLIENTS && !is_pressed(&self.core);
        let unflushed_max = if is_patient { UNFLUSHED_BESIDE_CLIENTS } else { usize::MAX };
        let Some(batch) = &mut self.destage else { return Ok(()) };
        if batch.next == 0 {
            if batch.open > 0 {
                return Ok(());
            }
            // A page that could not be read stays dirty.
            let (read, unread): (Vec<_>, Vec<_>) =
                std::mem::take(&mut batch.items).into_iter().partition(|item| item.data.is_some());
            batch.items = read;
            release(&self.core, unread);
        }
        let mut runs = Vec::new();
        let batch = self.destage.as_mut().expect("it is under way");
        while batch.open < depth && batch.next < batch.items.len() && batch.unflushed < unflushed_max {
            let (first, count) = (batch.next, run_len(&batch.items[batch.next..]));
            batch.next += count;
            batch.open += 1;
            batch.unflushed += 1;
            runs.push((first, count));
        }
        for (first, count) in runs {
            self.write_run(first, count);
        }
        let batch = self.destage.as_ref().expect("it is under way");
        match (batch.open, batch.unflushed) {
            (0, 0) => self.end_batch(),
            (0, _) => self.flush_batch(),
            _ => Ok(()),
        }
    }

    fn write_run(&mut self, first: usize, count: usize) {
        let batch = self.destage.as_mut().expect("it is under way");
        let key = batch.items[first].key;
        let mut buffer = Vec::with_capacity(count * BLOCK as usize);
        for item in &mut batch.items[first..first + count] {
            buffer.extend_from_slice(item.data.as_deref().expect("it was read"));
            item.data = Some(Vec::new());
        }
        self.core.counters.destage_runs.add(1);
        let disk = &self.core.disks[usize::from(key.disk())];
        let span = Span::new(disk.block_at(key.block()), buffer.len() as u64);
        let request = MemberRequest { member: Member::Disk(key.disk()), op: Op::Write(Access::Cached), span, buffer };
        self.start(request, WorkerPart::DestageWrite { item: first, count });
    }

    /// Handles the end of a write of a disk.
    pub(crate) fn end_destage_write(
        &mut self,
        item: usize,
        count: usize,
        result: ferrite_memory::Result<()>,
    ) -> Result<()> {
        let batch = self.destage.as_mut().expect("it is under way");
        batch.open -= 1;
        let disk = &self.core.disks[usize::from(batch.items[item].key.disk())];
        disk.writes.fetch_add(1, Ordering::SeqCst);
        match result {
            Ok(()) => batch.items[item..item + count].iter_mut().for_each(|item| item.is_written = true),
            Err(_) => {
                batch.has_failed = true;
                disk.errors.fetch_add(1, Ordering::Relaxed);
                self.core.counters.destage_errors.add(1);
            }
        }
        self.go_on_with_batch()
    }

    fn flush_batch(&mut self) -> Result<()> {
        let batch = self.destage.as_mut().expect("it is under way");
        batch.unflushed = 0;
        if planted!("cache: a page is clean before the disk's flush") {
            return self.end_batch();
        }
        let mut disks: Vec<u8> = batch.items.iter().map(|item| item.key.disk()).collect();
        disks.dedup();
        batch.open += disks.len();
        for disk in disks {
            let upto = self.core.disks[usize::from(disk)].writes.load(Ordering::SeqCst);
            let (op, span) = (Op::Flush, Span::new(0, 0));
            let request = MemberRequest { member: Member::Disk(disk), op, span, buffer: Vec::new() };
            self.start(request, WorkerPart::DestageFlush { disk, upto });
        }
        Ok(())
    }

    /// Handles the end of the flush of a disk.
    pub(crate) fn end_destage_flush(&mut self, disk: u8, upto: u64, result: ferrite_memory::Result<()>) -> Result<()> {
        let batch = self.destage.as_mut().expect("it is under way");
        batch.open -= 1;
        self.core.disks[usize::from(disk)].end_flush(upto, result.is_ok());
        if result.is_err() {
            batch.has_failed = true;
            self.core.counters.destage_errors.add(1);
        }
        self.go_on_with_batch()
    }

    /// Makes the pages clean that the disks have durably (CA6), and drops copies that clean LEBs do not need.
    fn end_batch(&mut self) -> Result<()> {
        let mut batch = self.destage.take().expect("it is under way");
        // A flush that failed, a client's too, may have lost writes that a later flush does not bring back.
        if batch.failures != flush_failures(&self.core) && !planted!("cache: a batch ignores a client's failed flush") {
            batch.has_failed = true;
            batch.items.iter_mut().for_each(|item| item.is_written = false);
        }
        self.retry_ns = if batch.has_failed { self.core.clock.now_ns() + 1_000_000_000 } else { 0 };
        let core = Arc::clone(&self.core);
        core.change_tables(|memory| {
            for item in batch.items.iter().filter(|item| item.is_written) {
                let shard = core.index.lock(item.key);
                let is_newest =
                    core.find(&shard, item.key) == Some(item.page) && core.epoch_of(item.page) == item.epoch;
                if !is_newest || !core.is_dirty(item.page) {
                    continue;
                }
                core.dirty.fetch_sub(1, Ordering::Relaxed);
                core.counters.destaged_pages.add(1);
                if item.page.is_slot() {
                    let number = item.page.number();
                    core.slots[number as usize].dirty.store(false, Ordering::Release);
                    memory.set_slot_clean(number, core.buffers.epoch_of(number));
                } else if let Some(word) = memory.page_word(item.page) {
                    memory.set_page_word(item.page, PageWord { dirty: false, ..word });
                    let (table, _) = memory.table_of(item.page);
                    memory.table_state(table).dirty.fetch_sub(1, Ordering::AcqRel);
                }
            }
            Ok(())
        })?;
        let pages = batch.items.iter().filter(|item| !item.page.is_slot());
        let mut tables: Vec<u32> = pages.map(|item| core.memory.table_of(item.page).0).collect();
        release(&self.core, batch.items);
        tables.sort_unstable();
        tables.dedup();
        self.drop_copies(&tables)?;
        core.wake_waiters();
        Ok(())
    }

    /// Drops the second copy of LEBs without dirty pages: the one on the SSD with fewer free LEBs.
    pub(crate) fn drop_copies(&mut self, tables: &[u32]) -> Result<()> {
        if self.core.settings().copies_of(false) > 1 {
            return Ok(());
        }
        let mut dropped = Vec::new();
        for table in tables {
            let state = self.core.memory.table_state(*table);
            let Some([Some(one), Some(other)]) = self.core.memory.table_places(*table) else { continue };
            if state.dirty.load(Ordering::Acquire) > 0 || state.readers.load(Ordering::Acquire) > 0 {
                continue;
            }
            // A copy that can be read and written stays, else the one on the SSD with more free LEBs.
            let worth = |place: LebPlace| {
                let ssd = self.core.ssds.get(place.ssd);
                let is_used = ssd.is_some_and(|ssd| ssd.is_writable());
                (is_used, self.space.count(place.ssd))
            };
            let keeps_one = worth(one) >= worth(other);
            let (kept, gone) = if keeps_one { (one, other) } else { (other, one) };
            dropped.push((*table, kept, gone));
        }
        if dropped.is_empty() {
            return Ok(());
        }
        self.core.change_tables(|memory| {
            dropped.iter().for_each(|(table, kept, _)| memory.set_table_places(*table, [Some(*kept), None]));
            Ok(())
        })?;
        for (table, _, gone) in dropped {
            self.dropped.push((table, gone));
        }
        Ok(())
    }

    /// Frees dropped copies that no request reads any more (CA9).
    pub(crate) fn free_dropped(&mut self) {
        let core = Arc::clone(&self.core);
        let is_read = |table: u32| core.memory.table_state(table).readers.load(Ordering::Acquire) > 0;
        for (table, place) in std::mem::take(&mut self.dropped) {
            match is_read(table) {
                true => self.dropped.push((table, place)),
                false => self.free_places([Some(place), None]),
            }
        }
    }
}

fn flush_failures(core: &CacheCore) -> u64 {
    core.disks.iter().map(|disk| disk.flush_failures.load(Ordering::SeqCst)).sum()
}

/// Returns how many of the first items are consecutive blocks of one disk.
fn run_len(items: &[DestageItem]) -> usize {
    let follows = |pair: &&[DestageItem]| {
        pair[1].key.disk() == pair[0].key.disk() && pair[1].key.block() == pair[0].key.block() + 1
    };
    1 + items.windows(2).take(RUN_BLOCKS - 1).take_while(follows).count()
}

/// Returns the item of a page that is the newest version of its block, dirty, and not being changed on the disk.
fn claim(core: &CacheCore, key: BlockKey, page: PageRef) -> Option<DestageItem> {
    let mut shard = core.index.lock(key);
    let is_busy = shard.flight(key).is_some_and(|flight| flight.arounds > 0 || flight.throughs > 0);
    if core.find(&shard, key) != Some(page) || !core.is_dirty(page) || is_busy {
        return None;
    }
    shard.change_flight(key, |flight| flight.is_destaged = true);
    let epoch = core.epoch_of(page);
    if page.is_slot() {
        let mut data = vec![0; BLOCK as usize];
        core.memory.load_slot_data(page.number(), 0, &mut data);
        return Some(DestageItem { key, page, epoch, data: Some(data), is_written: false });
    }
    let (table, _) = core.memory.table_of(page);
    core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
    Some(DestageItem { key, page, epoch, data: None, is_written: false })
}

fn release(core: &CacheCore, items: Vec<DestageItem>) {
    for item in items {
        core.index.lock(item.key).change_flight(item.key, |flight| flight.is_destaged = false);
        if !item.page.is_slot() {
            core.end_reader(item.page);
        }
    }
}

/// Returns true if clients use a disk.
fn is_used(core: &CacheCore) -> bool {
    let now_ns = core.clock.now_ns();
    let is_recent = |used_ns: u64| used_ns > 0 && now_ns.saturating_sub(used_ns) < USED_NS;
    core.disks.iter().any(|disk| is_recent(disk.used_ns.load(Ordering::Relaxed)))
}

/// Returns true if more than three quarters of the dirty pages that there may be are dirty.
fn is_pressed(core: &CacheCore) -> bool {
    core.dirty.load(Ordering::Relaxed).max(0) as u64 > dirty_max(core) / 4 * 3
}

fn dirty_max(core: &CacheCore) -> u64 {
    let settings = core.settings();
    core.ssds.pages(core.memory.layout()) * u64::from(settings.dirty_max_permille) / 1000
}

#[cfg(test)]
mod tests;
