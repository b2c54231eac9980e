//! Sealing: a full buffer becomes a LEB on one SSD or on two.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use ferrite_disk::{Access, Op};
use ferrite_memory::{Error, Span, planted};
use ferrite_pool::Result;

use crate::buffer_set::{SlotUse, WORKER_BUFFERS};
use crate::cache_core::CacheCore;
use crate::cache_layout::BLOCK;
use crate::cache_worker::{CacheWorker, ValidTable, WorkerPart};
use crate::dead_marks::store_all_marks;
use crate::leb_table::{TableContent, TablePage};
use crate::member_queues::{Member, MemberRequest};
use crate::new_version::{Expected, NewVersion};
use crate::page_word::{LebPlace, PageRef, PageWord};

/// Seals that are under way at most.
const SEALS_MAX: usize = 4;

/// A buffer on its way to the SSDs.
pub(crate) struct SealJob {
    buffer: u32,
    epoch: u64,
    /// The slots whose pages the LEB has, in order.
    slots: Vec<u32>,
    places: Vec<LebPlace>,
    /// Requests that have not ended.
    open: usize,
    /// True if a copy failed: the buffer is sealed again.
    has_failed: bool,
}

impl SealJob {
    /// Returns the LEBs that are being written.
    pub fn places(&self) -> &[LebPlace] {
        &self.places
    }
}

impl CacheWorker {
    /// Begins to seal full buffers.
    pub(crate) fn start_seals(&mut self) -> Result<()> {
        while self.seals.len() < SEALS_MAX {
            let Some(buffer) = self.core.buffers.take_full() else { return Ok(()) };
            if !self.start_seal(buffer)? {
                self.core.buffers.put_full(buffer);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Returns false if the buffer has to wait.
    fn start_seal(&mut self, buffer: u32) -> Result<bool> {
        let slots = live_slots(&self.core, buffer);
        let pages = self.core.memory.layout().pages() as usize;
        let has_room = self.core.buffers.free_and_full().0 >= WORKER_BUFFERS;
        // A buffer of rewritten blocks costs an SSD less if its rest moves to the next one.
        if slots.is_empty() || (slots.len() * 4 < pages * 3 && has_room) {
            return self.compact(buffer, &slots);
        }
        let seal = self.next_seal;
        self.next_seal += 1;
        let epoch = self.core.buffers.epoch_of(buffer * pages as u32);
        let job = SealJob { buffer, epoch, slots, places: Vec::new(), open: 0, has_failed: false };
        self.seals.insert(seal, job);
        if self.flush_disks(seal) {
            return Ok(true);
        }
        if self.write_copies(seal) {
            return Ok(true);
        }
        self.seals.remove(&seal);
        Ok(false)
    }

    /// Moves the live slots of a buffer to the one that is being filled, and frees the buffer.
    fn compact(&mut self, buffer: u32, slots: &[u32]) -> Result<bool> {
        let core = Arc::clone(&self.core);
        let mut data = [0; BLOCK as usize];
        core.drop_unflushed(slots);
        for slot in slots {
            let state = &core.slots[*slot as usize];
            if !state.live.load(Ordering::Acquire) {
                continue;
            }
            let (key, dirty) = (state.key(), state.dirty.load(Ordering::Acquire));
            let slot_use = if dirty { SlotUse::Dirty } else { SlotUse::Clean };
            let Some(grant) = core.take_slot(slot_use, true) else { return Ok(false) };
            core.memory.load_slot_data(*slot, 0, &mut data);
            let version = NewVersion { key, dirty, hits: state.hits.load(Ordering::Relaxed), data: &data };
            core.publish(grant, &version, Expected::Version(PageRef::slot(*slot)));
            core.finish_slot(grant);
        }
        core.apply_marks()?;
        self.core.free_buffer(buffer)?;
        Ok(true)
    }

    /// Flushes the disks that slots of the seal were written through to or read from, so that the slots are clean (CA21). Returns false if
    /// there are none.
    fn flush_disks(&mut self, seal: u64) -> bool {
        let mut disks = Vec::new();
        for slot in &self.seals[&seal].slots {
            let state = &self.core.slots[*slot as usize];
            let (number, through) = (state.key().disk(), state.through.load(Ordering::Acquire));
            let disk = &self.core.disks[usize::from(number)];
            if through > disk.flushed.load(Ordering::SeqCst) && !disks.contains(&number) {
                disks.push(number);
            }
        }
        for disk in &disks {
            let upto = self.core.disks[usize::from(*disk)].writes.load(Ordering::SeqCst);
            let (op, span) = (Op::Flush, Span::new(0, 0));
            let request = MemberRequest { member: Member::Disk(*disk), op, span, buffer: Vec::new() };
            self.seals.get_mut(&seal).expect("it is under way").open += 1;
            self.start(request, WorkerPart::SealDisk { seal, disk: *disk, upto });
        }
        !disks.is_empty()
    }

    /// Handles the end of the flush of a disk.
    pub(crate) fn end_seal_disk(
        &mut self,
        seal: u64,
        disk: u8,
        upto: u64,
        result: ferrite_memory::Result<()>,
    ) -> Result<()> {
        self.core.disks[usize::from(disk)].end_flush(upto, result.is_ok());
        let job = self.seals.get_mut(&seal).expect("it is under way");
        job.open -= 1;
        if job.open == 0 && !self.write_copies(seal) {
            let job = self.seals.remove(&seal).expect("it was just found");
            self.core.buffers.put_full(job.buffer);
        }
        Ok(())
    }

    /// Writes the LEB of a seal to as many SSDs as the settings say. Returns false if it has to wait: for free LEBs, or
    /// for the disk because dirty pages would have one copy only.
    fn write_copies(&mut self, seal: u64) -> bool {
        let job = &self.seals[&seal];
        clean_written_through(&self.core, &job.slots);
        self.core.drop_unflushed(&job.slots);
        let is_dirty = |slot: &u32| self.core.slots[*slot as usize].dirty.load(Ordering::Acquire);
        let copies = self.core.settings().copies_of(job.slots.iter().any(is_dirty));
        let core = Arc::clone(&self.core);
        let may_use = |id| core.ssds.get(id).is_some_and(|ssd| ssd.is_writable());
        let Some(places) = self.space.take(copies, may_use) else { return false };
        let content = content_of(&self.core, &self.seals[&seal], &places);
        let mut image = self.core.memory.encode_leb_header(&content);
        let job = self.seals.get_mut(&seal).expect("it is under way");
        for slot in &job.slots {
            let at = image.len();
            image.resize(at + BLOCK as usize, 0);
            self.core.memory.load_slot_data(*slot, 0, &mut image[at..]);
        }
        (job.places, job.open) = (places.clone(), places.len());
        for (copy, place) in places.iter().enumerate() {
            let span =
                Span::new(u64::from(place.leb) * u64::from(self.core.memory.layout().leb_bytes), image.len() as u64);
            if let Some(ssd) = self.core.ssds.get(place.ssd) {
                ssd.written_bytes.fetch_add(span.len, Ordering::Relaxed);
            }
            let (op, buffer) = (Op::Write(Access::Cached), image.clone());
            let request = MemberRequest { member: Member::Ssd(place.ssd), op, span, buffer };
            self.start(request, WorkerPart::SealWrite { seal, copy });
        }
        true
    }

    /// Handles the end of the write of a copy.
    pub(crate) fn end_seal_write(&mut self, seal: u64, copy: usize, result: ferrite_memory::Result<()>) -> Result<()> {
        let place = self.seals[&seal].places[copy];
        if let Err(error) = result {
            return self.end_copy(seal, copy, Some((error, false)));
        }
        if planted!("cache: a table is valid before the SSD's flush") {
            return self.end_copy(seal, copy, None);
        }
        let (op, span) = (Op::Flush, Span::new(0, 0));
        let request = MemberRequest { member: Member::Ssd(place.ssd), op, span, buffer: Vec::new() };
        self.start(request, WorkerPart::SealFlush { seal, copy });
        Ok(())
    }

    /// Handles the end of the flush of a copy's SSD.
    pub(crate) fn end_seal_flush(&mut self, seal: u64, copy: usize, result: ferrite_memory::Result<()>) -> Result<()> {
        self.end_copy(seal, copy, result.err().map(|error| (error, true)))
    }

    fn end_copy(&mut self, seal: u64, copy: usize, failed: Option<(Error, bool)>) -> Result<()> {
        let job = self.seals.get_mut(&seal).expect("it is under way");
        job.open -= 1;
        if let Some((error, of_flush)) = failed {
            job.has_failed = true;
            // The LEB stays out of use until the cache is opened again: a late write may land in it (CA11).
            let place = job.places[copy];
            job.places[copy] = LebPlace { leb: 0, ..place };
            if let Some(ssd) = self.core.ssds.get(place.ssd) {
                self.core.note_ssd_error(&ssd, &error, of_flush);
            }
        }
        if self.seals[&seal].open > 0 {
            return Ok(());
        }
        let job = self.seals.remove(&seal).expect("it was just found");
        if !job.has_failed {
            return self.commit_seal(job);
        }
        for place in job.places.iter().filter(|place| place.leb > 0) {
            self.free_places([Some(*place), None]);
        }
        self.core.buffers.put_full(job.buffer);
        Ok(())
    }

    /// Makes the table of a written LEB valid, points the index to its pages, and frees the buffer (CA4).
    fn commit_seal(&mut self, job: SealJob) -> Result<()> {
        let core = Arc::clone(&self.core);
        let table = self.free_tables.pop().expect("there are as many tables as LEBs");
        let early = planted!("cache: a seal looks at slots early").then(|| content_of(&core, &job, &job.places));
        let _ = early.is_some() && planted!("cache: amid a seal");
        // No mark becomes durable between the look at the slots and the marks of pages that die during the seal (CA3), and
        // a change of one of their blocks waits for those marks (CA7).
        let content = core.change_tables(|memory| {
            core.pending_drops.fetch_add(1, Ordering::SeqCst);
            let content = early.unwrap_or_else(|| content_of(&core, &job, &job.places));
            let _ = planted!("cache: amid a seal");
            let is_late = planted!("cache: a table is valid before older versions are dead");
            // Behind the snapshot: what is dead in it has a durable successor.
            if !is_late {
                store_all_marks(&core)?;
            }
            memory.store_table(table, &content)?;
            if is_late {
                store_all_marks(&core)?;
            }
            turn_index(&core, table, &job, &content);
            core.pending_drops.fetch_sub(1, Ordering::SeqCst);
            Ok(content)
        })?;
        for place in &job.places {
            if let Some(ssd) = self.core.ssds.get(place.ssd) {
                ssd.inserts.fetch_add(1, Ordering::Relaxed);
            }
        }
        let since_ns = self.core.clock.now_ns();
        self.valid.insert(content.sequence, ValidTable { table, since_ns });
        self.core.counters.sealed_lebs.add(1);
        if self.core.memory.table_state(table).live.load(Ordering::Acquire) == 0 {
            self.core.note_empty(table);
        }
        self.core.free_buffer(job.buffer)
    }
}

/// Returns the content of the table of a seal as its slots are now.
fn content_of(core: &CacheCore, job: &SealJob, places: &[LebPlace]) -> TableContent {
    let page = |slot: &u32| {
        let state = &core.slots[*slot as usize];
        let word = PageWord {
            key: state.key(),
            live: state.live.load(Ordering::Acquire),
            dirty: state.dirty.load(Ordering::Acquire),
            lost: false,
            hits: state.hits.load(Ordering::Relaxed),
        };
        let sum = core.memory.load_slot_header(*slot).map_or(0, |header| header.sum);
        TablePage { word, sum }
    };
    TableContent {
        sequence: job.epoch,
        places: [places.first().copied(), places.get(1).copied()],
        pages: job.slots.iter().map(page).collect(),
    }
}

fn live_slots(core: &CacheCore, buffer: u32) -> Vec<u32> {
    let pages = core.memory.layout().pages();
    let slots = buffer * pages..(buffer + 1) * pages;
    slots.filter(|slot| core.slots[*slot as usize].live.load(Ordering::Acquire)).collect()
}

/// Makes the slots clean whose version the disk has durably (CA6).
fn clean_written_through(core: &CacheCore, slots: &[u32]) {
    for slot in slots {
        let state = &core.slots[*slot as usize];
        let through = state.through.load(Ordering::Acquire);
        let disk = &core.disks[usize::from(state.key().disk())];
        if through == 0 || !disk.is_durable(through) {
            continue;
        }
        let _shard = core.index.lock(state.key());
        if state.live.load(Ordering::Acquire) && state.dirty.swap(false, Ordering::AcqRel) {
            core.dirty.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

fn turn_index(core: &CacheCore, table: u32, job: &SealJob, content: &TableContent) {
    let state = core.memory.table_state(table);
    state.live.store(0, Ordering::Release);
    state.dirty.store(0, Ordering::Release);
    for (index, (slot, page)) in (0..).zip(job.slots.iter().zip(&content.pages)) {
        if !page.word.live {
            continue;
        }
        let (key, place) = (page.word.key, core.memory.page_ref(table, index));
        let mut shard = core.index.lock(key);
        let newest = core.find(&shard, key);
        if newest != Some(PageRef::slot(*slot)) {
            core.mark_dead(place, newest.is_none().then_some(key));
            continue;
        }
        let slot_state = &core.slots[*slot as usize];
        core.memory.page_hits(place).store(slot_state.hits.load(Ordering::Relaxed), Ordering::Relaxed);
        state.live.fetch_add(1, Ordering::AcqRel);
        if page.word.dirty {
            state.dirty.fetch_add(1, Ordering::AcqRel);
        }
        slot_state.live.store(false, Ordering::Release);
        slot_state.dirty.store(false, Ordering::Release);
        shard.replace(key, place, |known| core.key_of(known));
    }
}
