//! Reclaiming LEBs: what is worth it moves to a buffer, the rest leaves the cache. Pages that lost a copy move the same way.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use ferrite_memory::Error;
use ferrite_pool::Result;

use crate::CachePolicy;
use crate::bad_copies::PageAccess;
use crate::buffer_set::SlotUse;
use crate::cache_core::CacheCore;
use crate::cache_members::SsdState;
use crate::cache_worker::{CacheWorker, WorkerPart};
use crate::new_version::{Expected, NewVersion};
use crate::page_word::{BlockKey, PageRef};

/// Free LEBs of an SSD that are kept for seals, at least.
const RESERVE_MIN: u32 = 2;
const RESERVE_MAX: u32 = 64;

/// The time after which pages that could not be moved are tried again, in nanoseconds.
const STUCK_NS: u64 = 1_000_000_000;

/// A page that moves.
struct MovedPage {
    key: BlockKey,
    page: PageRef,
    dirty: bool,
    hits: u8,
}

/// Pages of one table on their way to a buffer.
pub(crate) struct MoveJob {
    sequence: u64,
    table: u32,
    items: Vec<MovedPage>,
    open: usize,
    /// True if the table is freed afterwards.
    frees: bool,
    /// True if a page could not be moved.
    has_failed: bool,
}

impl CacheWorker {
    /// Returns the SSDs that are short of free LEBs.
    fn short_ssds(&self) -> BTreeSet<u8> {
        let coming = |id: u8| self.discards.iter().filter(|place| place.ssd == id).count() + self.discarding;
        let ssds = self.core.ssds.all().into_iter().filter(|ssd| ssd.is_writable());
        ssds.filter(|ssd| self.space.count(ssd.id) + coming(ssd.id) < reserve(ssd.lebs)).map(|ssd| ssd.id).collect()
    }

    /// Returns true if an SSD needs a free LEB and only LEBs with dirty pages are left.
    pub(crate) fn needs_clean_victim(&self) -> bool {
        let short = self.short_ssds();
        !short.is_empty() && self.victim(&short).is_none()
    }

    /// Returns the oldest table without dirty pages whose LEB is on one of `ssds`.
    fn victim(&self, ssds: &BTreeSet<u8>) -> Option<(u64, u32)> {
        let is_clean = |table: u32| self.core.memory.table_state(table).dirty.load(Ordering::Acquire) == 0;
        let mut tables = self.valid.iter().map(|(sequence, valid)| (*sequence, valid.table));
        tables.find(|(_, table)| is_clean(*table) && is_on(&self.core, *table, ssds))
    }

    /// Frees tables without live pages, and begins to move pages if LEBs are short or copies are missing.
    pub(crate) fn start_moves(&mut self, now_ns: u64) -> Result<()> {
        self.free_dropped();
        self.free_empty_tables()?;
        while self.moving.is_none() {
            let short = self.short_ssds();
            let victim = if short.is_empty() { None } else { self.victim(&short) };
            if let Some((sequence, table)) = victim {
                self.core.counters.collected_lebs.add(1);
                let job = self.move_of(sequence, table);
                self.start_move(job)?;
                continue;
            }
            if let Some((sequence, table)) = self.next_repair(now_ns) {
                let items = live_pages(&self.core, table).into_iter().filter(|item| item.dirty).collect();
                self.start_move(MoveJob { sequence, table, items, open: 0, frees: false, has_failed: false })?;
                continue;
            }
            if let Some(job) = self.next_mend(now_ns) {
                self.start_move(job)?;
                continue;
            }
            let Some(job) = self.next_leaving()? else { return Ok(()) };
            self.start_move(job)?;
        }
        Ok(())
    }

    /// Returns the job that moves the pages of a table that are worth it, and frees the table.
    pub(crate) fn move_of(&self, sequence: u64, table: u32) -> MoveJob {
        let items = worth_keeping(&self.core, table);
        MoveJob { sequence, table, items, open: 0, frees: true, has_failed: false }
    }

    fn free_empty_tables(&mut self) -> Result<()> {
        let empty = self.core.take_empty();
        if empty.is_empty() {
            return Ok(());
        }
        let live = |table: u32| self.core.memory.table_state(table).live.load(Ordering::Acquire);
        let moving = self.moving.as_ref().map(|job| job.table);
        let empty: Vec<(u64, u32)> = empty
            .into_iter()
            .filter(|table| live(*table) == 0 && moving != Some(*table))
            .filter_map(|table| {
                let sequence = self.core.memory.table_sequence(table).ok().flatten()?;
                self.valid.get(&sequence).filter(|valid| valid.table == table).map(|_| (sequence, table))
            })
            .collect();
        self.free_valid_tables(&empty)
    }

    /// Returns a table with dirty pages of which a copy is missing for longer than the grace, while there are SSDs for
    /// another one.
    fn next_repair(&self, now_ns: u64) -> Option<(u64, u32)> {
        if self.core.is_degraded() {
            return None;
        }
        let grace_ns = self.core.settings().grace_ns;
        let gone = self.core.ssds.all().into_iter().filter(|ssd| match ssd.state().0 {
            _ if ssd.leaves.load(Ordering::SeqCst) => true,
            SsdState::Online => false,
            SsdState::Failed | SsdState::Leaving => true,
            SsdState::Missing => now_ns.saturating_sub(ssd.since_ns()) >= grace_ns,
        });
        let gone: BTreeSet<u8> = gone.map(|ssd| ssd.id).collect();
        if gone.is_empty() {
            return None;
        }
        let has_dirty = |table: u32| self.core.memory.table_state(table).dirty.load(Ordering::Acquire) > 0;
        let can_read = |table: u32| self.core.access_of(table, 0) == PageAccess::Readable;
        let is_stuck = |table: u32| self.stuck.get(&table).is_some_and(|until_ns| now_ns < *until_ns);
        let mut tables = self.valid.iter().map(|(sequence, valid)| (*sequence, valid.table));
        tables.find(|(_, table)| {
            has_dirty(*table) && !is_stuck(*table) && is_on(&self.core, *table, &gone) && can_read(*table)
        })
    }

    /// Returns the job that writes dirty pages again that have a bad copy and a right one, while there are SSDs for two.
    fn next_mend(&self, now_ns: u64) -> Option<MoveJob> {
        if self.core.is_degraded() {
            return None;
        }
        let sequence_of = |table: u32| {
            let sequence = self.core.memory.table_sequence(table).ok().flatten()?;
            self.valid.get(&sequence).is_some_and(|valid| valid.table == table).then_some(sequence)
        };
        let is_stuck = |table: u32| self.stuck.get(&table).is_some_and(|until_ns| now_ns < *until_ns);
        let table = self.core.table_to_mend(|table| !is_stuck(table) && sequence_of(table).is_some())?;
        let is_bad = |item: &MovedPage| {
            item.dirty && self.core.bad.of(item.page) != 0 && self.core.copy_of(item.page, 0).is_some()
        };
        let items = live_pages(&self.core, table).into_iter().filter(is_bad).collect();
        let sequence = sequence_of(table)?;
        Some(MoveJob { sequence, table, items, open: 0, frees: false, has_failed: false })
    }

    fn start_move(&mut self, job: MoveJob) -> Result<()> {
        for item in &job.items {
            let (table, _) = self.core.memory.table_of(item.page);
            self.core.memory.table_state(table).readers.fetch_add(1, Ordering::AcqRel);
        }
        let count = job.items.len();
        self.moving = Some(job);
        for item in 0..count {
            self.read_moved(item, 0);
        }
        self.end_move_if_over()
    }

    fn read_moved(&mut self, item: usize, tried: u8) {
        let job = self.moving.as_mut().expect("a move is under way");
        let page = job.items[item].page;
        match self.core.copy_of(page, tried) {
            Some((copy, place)) => {
                job.open += 1;
                let request = self.core.page_request(place, page, 1);
                self.start(request, WorkerPart::MoveRead { item, ssd: place.ssd, tried: tried | 1 << copy });
            }
            None => {
                job.has_failed = true;
                self.core.end_reader(page);
            }
        }
    }

    /// Handles the end of a read.
    pub(crate) fn end_move_read(
        &mut self,
        item: usize,
        ssd: u8,
        tried: u8,
        read: std::result::Result<Vec<u8>, Error>,
    ) -> Result<()> {
        let job = self.moving.as_mut().expect("a move is under way");
        job.open -= 1;
        let MovedPage { key, page, dirty, hits } = job.items[item];
        let Some(good) = self.core.verified(page, ssd, read.as_ref().map(Vec::as_slice)) else {
            self.read_moved(item, tried);
            return self.end_move_if_over();
        };
        let slot_use = if dirty { SlotUse::Dirty } else { SlotUse::Clean };
        let grant = self.core.take_slot(slot_use, true);
        job.has_failed |= grant.is_none();
        if let Some(grant) = grant {
            // A page that the destager cleaned since stays dirty once more, which costs one write of the disk.
            let version = NewVersion { key, dirty, hits, data: good };
            if self.core.publish(grant, &version, Expected::Version(page)) {
                let counters = &self.core.counters;
                if dirty { counters.repaired_pages.add(1) } else { counters.moved_pages.add(1) }
            }
            self.core.finish_slot(grant);
        }
        self.core.end_reader(page);
        self.end_move_if_over()
    }

    fn end_move_if_over(&mut self) -> Result<()> {
        let Some(job) = self.moving.take_if(|job| job.open == 0) else { return Ok(()) };
        if !job.frees {
            // A page without a slot or without a copy that can be read waits.
            match job.has_failed {
                true => _ = self.stuck.insert(job.table, self.core.clock.now_ns() + STUCK_NS),
                false => _ = self.stuck.remove(&job.table),
            }
            return Ok(());
        }
        // A page of the victim cannot have become dirty: new versions go to slots.
        self.free_valid_tables(&[(job.sequence, job.table)])
    }
}

fn reserve(lebs: u32) -> usize {
    (lebs / 50).clamp(RESERVE_MIN, RESERVE_MAX) as usize
}

fn is_on(core: &CacheCore, table: u32, ssds: &BTreeSet<u8>) -> bool {
    let places = core.memory.table_places(table).unwrap_or_default();
    places.iter().flatten().any(|place| ssds.contains(&place.ssd))
}

fn live_pages(core: &CacheCore, table: u32) -> Vec<MovedPage> {
    let mut pages = Vec::new();
    for index in 0..core.memory.layout().pages() {
        let page = core.memory.page_ref(table, index);
        let Some(word) = core.memory.page_word(page) else { continue };
        let shard = core.index.lock(word.key);
        if core.find(&shard, word.key) == Some(page) {
            let hits = core.memory.page_hits(page).load(Ordering::Relaxed);
            pages.push(MovedPage { key: word.key, page, dirty: word.dirty, hits });
        }
    }
    pages
}

/// Returns the pages of a victim that stay in the cache: those with hits, the hottest first, at most half of a LEB.
fn worth_keeping(core: &CacheCore, table: u32) -> Vec<MovedPage> {
    let policy = core.settings().policy;
    if policy == CachePolicy::Fifo {
        return Vec::new();
    }
    let mut pages: Vec<MovedPage> = live_pages(core, table).into_iter().filter(|page| page.hits > 0).collect();
    pages.sort_by_key(|page| std::cmp::Reverse(page.hits));
    pages.truncate(core.memory.layout().pages() as usize / 2);
    for page in &mut pages {
        page.hits = if policy == CachePolicy::Paper { 0 } else { page.hits - 1 };
    }
    pages
}
