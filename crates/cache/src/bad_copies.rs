//! Copies whose bytes differ from those written to the SSD. A request of a client, the worker or a check finds
//! them; then no request reads them again, because the SSD would fail after a few more of these errors.
//!
//! - BC1. A noted copy is one of the newest version of its block. A version that is replaced or leaves the cache takes its
//!   notes with it, behind the lock of the block's shard: the page may then describe another block.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use ferrite_memory::planted;
use ferrite_pool::Result;
use parking_lot::Mutex;

use crate::cache_core::CacheCore;
use crate::cache_members::{CacheSsd, SsdState};
use crate::page_word::{BlockKey, LebPlace, PageRef, PageWord};

/// A bit for each SSD, by its number.
pub(crate) type SsdBits = u16;

/// Every SSD: the bits of a page that is lost.
const ALL: SsdBits = SsdBits::MAX;

/// The bad copies of the cache.
#[derive(Default)]
pub(crate) struct BadCopies {
    pages: Mutex<BTreeMap<PageRef, SsdBits>>,
    /// The number of pages, so that a lookup costs one load while it is 0.
    count: AtomicUsize,
    /// True if a copy was noted since the worker last looked.
    is_new: AtomicBool,
}

/// Whether the newest version of a dirty block can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PageAccess {
    /// An SSD gives it.
    Readable,
    /// It is on an SSD that is missing.
    Away,
    /// No copy is right on an SSD that may give it (CA20).
    Lost,
}

/// A dirty block that no SSD gives now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnreadableBlock {
    pub key: BlockKey,
    /// Its newest version.
    pub page: PageRef,
    /// Whether it is away or lost.
    pub access: PageAccess,
}

impl BadCopies {
    /// Returns the SSDs whose copy of `page` is bad.
    pub fn of(&self, page: PageRef) -> SsdBits {
        match self.count.load(Ordering::Acquire) {
            0 => 0,
            _ => self.pages.lock().get(&page).copied().unwrap_or(0),
        }
    }

    /// Returns the pages with a bad copy, and the SSDs that have it.
    pub fn all(&self) -> Vec<(PageRef, SsdBits)> {
        self.pages.lock().iter().map(|(page, ssds)| (*page, *ssds)).collect()
    }

    /// Notes that no copy of `page` is right, as its word says.
    pub fn note_lost(&self, page: PageRef) {
        self.add(page, ALL);
    }

    /// Forgets `page`, which the index does not name any more (BC1).
    pub fn forget(&self, page: PageRef) {
        if self.count.load(Ordering::Acquire) > 0 && !planted!("cache: a bad copy outlives its version") {
            let mut pages = self.pages.lock();
            pages.remove(&page);
            self.count.store(pages.len(), Ordering::Release);
        }
    }

    /// Adds the copies of `page` on `ssds`. Returns true if one of them was not noted before.
    fn add(&self, page: PageRef, ssds: SsdBits) -> bool {
        let mut pages = self.pages.lock();
        let known = pages.entry(page).or_default();
        let before = std::mem::replace(known, *known | ssds);
        self.count.store(pages.len(), Ordering::Release);
        before & ssds != ssds
    }
}

impl CacheCore {
    /// Notes and counts that the copy of `page` on `ssd` is bad, if `page` is the newest version of its block (BC1). Returns
    /// true if that was not known.
    pub fn note_bad(&self, page: PageRef, ssd: &CacheSsd) -> bool {
        let Some(word) = self.memory.page_word(page) else { return false };
        let shard = self.index.lock(word.key);
        let is_new = self.find(&shard, word.key) == Some(page) && self.bad.add(page, 1 << ssd.id);
        if is_new {
            ssd.mismatches.fetch_add(1, Ordering::Relaxed);
            self.bad.is_new.store(true, Ordering::Release);
            self.worker_event.signal();
        }
        is_new
    }

    /// Returns whether a page of the table `table` can be read whose copies on the SSDs `bad` are bad.
    pub fn access_of(&self, table: u32, bad: SsdBits) -> PageAccess {
        let places = self.memory.table_places(table).unwrap_or_default();
        let right = places.iter().flatten().filter(|place| bad & 1 << place.ssd == 0);
        let states = right.filter_map(|place: &LebPlace| Some(self.ssds.get(place.ssd)?.state().0));
        states.fold(PageAccess::Lost, |known, state| match (known, state) {
            (PageAccess::Readable, _) | (_, SsdState::Online | SsdState::Leaving) => PageAccess::Readable,
            (PageAccess::Away, _) | (_, SsdState::Missing) => PageAccess::Away,
            (PageAccess::Lost, SsdState::Failed) => PageAccess::Lost,
        })
    }

    /// Returns the dirty pages with a bad copy, and whether each can be read.
    fn bad_dirty_pages(&self) -> Vec<(PageRef, PageAccess)> {
        let dirty = self.bad.all().into_iter().filter(|(page, _)| self.is_dirty(*page));
        dirty.map(|(page, bad)| (page, self.access_of(self.memory.table_of(page).0, bad))).collect()
    }

    /// Returns a table that has dirty pages with a bad copy and a right one that can be read.
    pub fn table_to_mend(&self, is_wanted: impl Fn(u32) -> bool) -> Option<u32> {
        let readable = self.bad_dirty_pages().into_iter().filter(|(_, access)| *access == PageAccess::Readable);
        readable.map(|(page, _)| self.memory.table_of(page).0).find(|table| is_wanted(*table))
    }

    /// Returns the numbers of dirty pages that are on missing SSDs, and that are lost.
    pub fn unreadable_pages(&self) -> (u64, u64) {
        let bad = self.bad_dirty_pages();
        let mut with_bad: BTreeMap<u32, u32> = BTreeMap::new();
        bad.iter().for_each(|(page, _)| *with_bad.entry(self.memory.table_of(*page).0).or_default() += 1);
        let of_tables = (0..self.memory.tables()).filter_map(|table| {
            let dirty = self.memory.table_state(table).dirty.load(Ordering::Acquire);
            let others = dirty.saturating_sub(with_bad.get(&table).copied().unwrap_or(0));
            (others > 0).then(|| (self.access_of(table, 0), u64::from(others)))
        });
        let (mut away, mut lost) = (0, 0);
        for (access, pages) in of_tables.chain(bad.iter().map(|(_, access)| (*access, 1))) {
            match access {
                PageAccess::Readable => {}
                PageAccess::Away => away += pages,
                PageAccess::Lost => lost += pages,
            }
        }
        (away, lost)
    }

    /// Returns the dirty blocks that no SSD gives now, with a copy on the SSD `id` if an SSD is named.
    pub fn unreadable_blocks(&self, id: Option<u8>) -> Vec<UnreadableBlock> {
        let is_asked = |table: &u32| {
            let places = self.memory.table_places(*table).unwrap_or_default();
            id.is_none_or(|id| places.iter().flatten().any(|place| place.ssd == id))
        };
        let has_dirty = |table: &u32| self.memory.table_state(*table).dirty.load(Ordering::Acquire) > 0;
        let has_bad: BTreeSet<u32> = self.bad.all().iter().map(|(page, _)| self.memory.table_of(*page).0).collect();
        let tables = (0..self.memory.tables()).filter(has_dirty).filter(is_asked);
        let tables =
            tables.filter(|table| has_bad.contains(table) || self.access_of(*table, 0) != PageAccess::Readable);
        let pages = tables.flat_map(|table| (0..self.memory.pages()).map(move |index| (table, index)));
        let unreadable = pages.filter_map(|(table, index)| {
            let page = self.memory.page_ref(table, index);
            let word = self.memory.page_word(page).filter(|word| word.live && word.dirty)?;
            let is_newest = self.find(&self.index.lock(word.key), word.key) == Some(page);
            let access = self.access_of(table, self.bad.of(page));
            let block = UnreadableBlock { key: word.key, page, access };
            (is_newest && access != PageAccess::Readable).then_some(block)
        });
        unreadable.collect()
    }

    /// Records durably which pages were lost since the last call, so that the next opening knows (CA20).
    ///
    /// # Errors
    /// The errors of the pool.
    pub fn record_lost(&self) -> Result<()> {
        if !self.bad.is_new.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let has_right = |page: PageRef, bad: SsdBits| {
            let places = self.memory.table_places(self.memory.table_of(page).0).unwrap_or_default();
            places.iter().flatten().any(|place| bad & 1 << place.ssd == 0)
        };
        let bad = self.bad.all().into_iter();
        let lost = bad.filter(|(page, bad)| self.is_dirty(*page) && !has_right(*page, *bad));
        let lost: Vec<PageRef> = lost.map(|(page, _)| page).collect();
        if lost.is_empty() || planted!("cache: what is lost is not recorded") {
            return Ok(());
        }
        self.change_tables(|memory| {
            for page in lost {
                if let Some(word) = memory.page_word(page).filter(|word| word.live && word.dirty && !word.lost) {
                    memory.set_page_word(page, PageWord { lost: true, ..word });
                }
            }
            Ok(())
        })
    }

    /// Names the blocks `keys` for people: at most eight of them.
    pub fn show_blocks(&self, keys: &[BlockKey]) -> String {
        const NAMED: usize = 8;
        let name = |key: &BlockKey| {
            let disk = self.disks.get(key.disk()).map_or_else(String::new, |disk| disk.config.export.clone());
            format!("block {} of disk {disk:?}", key.block())
        };
        let named: Vec<String> = keys.iter().take(NAMED).map(name).collect();
        let more = keys.len().saturating_sub(NAMED);
        named.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    }
}

#[cfg(test)]
mod tests;
