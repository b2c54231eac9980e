//! The background work of a cache, as a state machine: each step does what can be done now and returns when to come back.
//!
//! In order of importance: ends of requests, failed SSDs, seals, destaging, reclaiming LEBs, copies that are missing,
//! discards.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ferrite_disk::{Access, Op, ReadyEvent, Wait};
use ferrite_memory::{Span, planted};
use ferrite_pool::Result;

use crate::cache_core::CacheCore;
use crate::cache_members::SsdState;
use crate::collect::MoveJob;
use crate::destage::DestageBatch;
use crate::destage_rate::DestageRate;
use crate::leb_space::LebSpace;
use crate::member_queues::{Member, MemberEnd, MemberQueues, MemberRequest};
use crate::page_word::{LebPlace, LebPlaces};
use crate::seal::SealJob;

/// The longest rest between two steps.
const REST: Duration = Duration::from_millis(100);
/// Discards that are in flight at most.
const DISCARDS_MAX: usize = 8;

/// A request of the worker to a member.
pub(crate) enum WorkerPart {
    /// The copy `copy` of the seal `seal` is being written.
    SealWrite { seal: u64, copy: usize },
    /// The SSD of this copy is being flushed.
    SealFlush { seal: u64, copy: usize },
    /// A disk is flushed for a seal, up to this write.
    SealDisk { seal: u64, disk: u8, upto: u64 },
    /// Pages are read for the destage batch, from the item with this index on.
    DestageRead { item: usize, count: usize, ssd: u8, tried: u8 },
    /// Blocks of the batch are written to a disk.
    DestageWrite { item: usize, count: usize },
    /// A disk is flushed for the batch.
    DestageFlush { disk: u8, upto: u64 },
    /// A page is read to be moved.
    MoveRead { item: usize, ssd: u8, tried: u8 },
    /// A LEB is discarded.
    Discard { place: LebPlace },
}

/// A valid table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValidTable {
    pub table: u32,
    /// When it became valid, or the time of the opening.
    pub since_ns: u64,
}

/// The worker.
pub(crate) struct CacheWorker {
    pub core: Arc<CacheCore>,
    pub members: MemberQueues,
    pub parts: HashMap<u64, WorkerPart>,
    /// The valid tables by sequence: the oldest first.
    pub valid: BTreeMap<u64, ValidTable>,
    pub free_tables: Vec<u32>,
    pub space: LebSpace,
    /// Free tables whose LEBs are still being read.
    pub dying: Vec<u32>,
    pub discards: VecDeque<LebPlace>,
    pub discarding: usize,
    pub seals: BTreeMap<u64, SealJob>,
    pub next_seal: u64,
    pub destage: Option<DestageBatch>,
    pub rate: DestageRate,
    pub moving: Option<MoveJob>,
    /// Copies that tables do not name any more, and that requests may still read.
    pub dropped: Vec<(u32, LebPlace)>,
    /// No batch begins before this time, because a disk failed.
    pub retry_ns: u64,
    /// Tables with pages that could not be moved, and when they are tried again.
    pub stuck: HashMap<u32, u64>,
    /// No search for old dirty pages begins before this time.
    pub next_age_ns: u64,
    failures_seen: u32,
}

/// What recovery found.
pub(crate) struct WorkerStart {
    pub valid: BTreeMap<u64, ValidTable>,
    pub free_tables: Vec<u32>,
    pub space: LebSpace,
}

impl CacheWorker {
    /// Returns the worker of `core`.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the host has no descriptor left.
    pub fn new(core: Arc<CacheCore>, start: WorkerStart) -> ferrite_memory::Result<Self> {
        let event = Arc::new(ReadyEvent::new()?);
        let members = MemberQueues::new(Arc::clone(&core), event)?;
        members.wait_also_for(&core.worker_event)?;
        let WorkerStart { valid, free_tables, space } = start;
        Ok(Self {
            core,
            members,
            parts: HashMap::new(),
            valid,
            free_tables,
            space,
            dying: Vec::new(),
            discards: VecDeque::new(),
            discarding: 0,
            seals: BTreeMap::new(),
            next_seal: 0,
            destage: None,
            rate: DestageRate::default(),
            moving: None,
            dropped: Vec::new(),
            retry_ns: 0,
            stuck: HashMap::new(),
            next_age_ns: 0,
            failures_seen: 0,
        })
    }

    /// Does what can be done at `now_ns` without waiting. Returns the time after which the next step is due if no member
    /// answers and no client asks before.
    ///
    /// # Errors
    /// The errors of the pool: then the pool refuses further changes.
    pub fn step(&mut self, now_ns: u64) -> Result<Duration> {
        self.core.worker_event.clear();
        self.core.orphans.lock().retain_mut(|orphan| !orphan.is_over());
        let is_early = planted!("cache: members are written before they have a new generation");
        if !self.core.member_pass.is_given() && !is_early {
            return Ok(REST);
        }
        loop {
            let ends = self.members.collect(Wait::No).unwrap_or_default();
            let is_idle = ends.is_empty();
            for end in ends {
                self.end_part(end)?;
            }
            self.look_at_failures()?;
            self.core.record_lost()?;
            self.start_seals()?;
            self.start_destage(now_ns)?;
            self.start_moves(now_ns)?;
            self.bury_tables()?;
            self.start_discards();
            if is_idle && !self.members.has_ended() {
                return Ok(REST);
            }
        }
    }

    /// Returns true if nothing is under way and nothing could be begun.
    pub fn is_idle(&self) -> bool {
        self.parts.is_empty() && !self.members.has_ended()
    }

    /// Returns the descriptor that is readable when a member answered or a client asks.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.members.descriptor()
    }

    /// Starts a request to a member.
    pub fn start(&mut self, request: MemberRequest, part: WorkerPart) {
        let token = self.members.submit(request);
        self.parts.insert(token, part);
    }

    pub fn end_part(&mut self, end: MemberEnd) -> Result<()> {
        let MemberEnd { token, result, buffer } = end;
        match self.parts.remove(&token).expect("a request of the worker has a part") {
            WorkerPart::SealWrite { seal, copy } => self.end_seal_write(seal, copy, result),
            WorkerPart::SealFlush { seal, copy } => self.end_seal_flush(seal, copy, result),
            WorkerPart::SealDisk { seal, disk, upto } => self.end_seal_disk(seal, disk, upto, result),
            WorkerPart::DestageRead { item, count, ssd, tried } => {
                self.end_destage_read(item, count, ssd, tried, result.map(|()| buffer))
            }
            WorkerPart::DestageWrite { item, count } => self.end_destage_write(item, count, result),
            WorkerPart::DestageFlush { disk, upto } => self.end_destage_flush(disk, upto, result),
            WorkerPart::MoveRead { item, ssd, tried } => self.end_move_read(item, ssd, tried, result.map(|()| buffer)),
            WorkerPart::Discard { place } => {
                self.discarding -= 1;
                // A discard is a hint: a LEB whose discard failed is written all the same.
                if self.core.ssds.get(place.ssd).is_some_and(|ssd| ssd.is_writable()) {
                    self.space.add(place);
                }
                Ok(())
            }
        }
    }

    /// Writes nothing more to SSDs that are not used any more, and records those that failed, so that a restart does not
    /// trust them.
    pub fn look_at_failures(&mut self) -> Result<()> {
        let failures = self.core.failures.load(Ordering::SeqCst);
        if failures == self.failures_seen {
            return Ok(());
        }
        self.failures_seen = failures;
        let mut failed = self.core.ssds.all();
        failed.retain(|ssd| !ssd.is_readable());
        failed.iter().for_each(|ssd| self.close_space(ssd.id));
        failed.retain(|ssd| ssd.state().0 == SsdState::Failed);
        if failed.is_empty() {
            return Ok(());
        }
        self.core.change_config(|config| {
            for ssd in &failed {
                if let Some(known) = config.ssds.iter_mut().find(|known| known.id == ssd.id) {
                    known.failed = Some(ssd.state().1);
                }
            }
        })?;
        Ok(())
    }

    /// Frees the LEBs of free tables that no request reads any more (CA9).
    fn bury_tables(&mut self) -> Result<()> {
        let core = Arc::clone(&self.core);
        let is_early = planted!("cache: a LEB is free while it is read");
        let is_read = |table: u32| core.memory.table_state(table).readers.load(Ordering::Acquire) > 0 && !is_early;
        let (dying, over): (Vec<u32>, Vec<u32>) =
            std::mem::take(&mut self.dying).into_iter().partition(|table| is_read(*table));
        self.dying = dying;
        for table in over {
            let places = self.core.memory.table_places(table).unwrap_or_default();
            self.free_places(places);
            self.free_tables.push(table);
        }
        Ok(())
    }

    /// Gives LEBs back that no table names.
    pub fn free_places(&mut self, places: LebPlaces) {
        for place in places.into_iter().flatten() {
            if self.core.ssds.get(place.ssd).is_some_and(|ssd| ssd.is_writable()) {
                self.discards.push_back(place);
            }
        }
    }

    fn start_discards(&mut self) {
        let is_on = self.core.settings().discard;
        while self.discarding < DISCARDS_MAX {
            let Some(place) = self.discards.pop_front() else { return };
            let ssd = self.core.ssds.get(place.ssd).filter(|ssd| ssd.is_writable());
            let Some(ssd) = ssd else { continue };
            if !is_on || !ssd.disk().is_some_and(|disk| disk.geometry().trim) {
                self.space.add(place);
                continue;
            }
            let leb_bytes = u64::from(self.core.memory.layout().leb_bytes);
            ssd.trimmed_bytes.fetch_add(leb_bytes, Ordering::Relaxed);
            self.discarding += 1;
            let span = Span::new(u64::from(place.leb) * leb_bytes, leb_bytes);
            let op = Op::Trim(Access::Cached);
            let request = MemberRequest { member: Member::Ssd(place.ssd), op, span, buffer: Vec::new() };
            self.start(request, WorkerPart::Discard { place });
        }
    }

    /// Makes those of `tables` free that are still valid, removes their blocks from the index, and lets their LEBs go when
    /// no request reads them (CA9).
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn free_valid_tables(&mut self, tables: &[(u64, u32)]) -> Result<()> {
        let is_valid =
            |(sequence, table): &&(u64, u32)| self.valid.get(sequence).is_some_and(|valid| valid.table == *table);
        // A table that is listed twice is freed once: its LEBs would be given to two others.
        let tables: BTreeSet<(u64, u32)> = tables.iter().filter(is_valid).copied().collect();
        if tables.is_empty() {
            return Ok(());
        }
        // Dead marks of older versions first (CA3).
        self.core.apply_marks()?;
        self.core.change_tables(|memory| {
            tables.iter().for_each(|(_, table)| memory.free_table(*table));
            Ok(())
        })?;
        let pages = self.core.memory.layout().pages();
        for (sequence, table) in tables {
            self.valid.remove(&sequence);
            self.stuck.remove(&table);
            let state = self.core.memory.table_state(table);
            for index in 0..pages {
                if state.live.load(Ordering::Acquire) == 0 {
                    break;
                }
                let page = self.core.memory.page_ref(table, index);
                let Some(word) = self.core.memory.page_word(page) else { continue };
                let mut shard = self.core.index.lock(word.key);
                if shard.remove(word.key, page) {
                    self.core.bad.forget(page);
                    if word.dirty {
                        state.dirty.fetch_sub(1, Ordering::AcqRel);
                        self.core.dirty.fetch_sub(1, Ordering::Relaxed);
                    }
                    state.live.fetch_sub(1, Ordering::AcqRel);
                    self.core.counters.evicted_pages.add(1);
                    self.core.ghost.note(word.key);
                }
            }
            self.dying.push(table);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
