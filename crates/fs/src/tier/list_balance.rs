//! How the pool is shared between dirty and clean pages.
//!
//! The paper's policy compares hits: the list whose pages are used more than twice as often grows by a sixty-fourth of
//! the pool, and the other list shrinks (nvm-storage-hierarchy.txt 3.2.3). Ferrite's policy compares mistakes. A page
//! that is read from its SSD again soon was evicted too early: clean pages get room. A clean page that is overwritten
//! was destaged too early: dirty pages get room, and that counts twice, because a write to an SSD costs more.

use parking_lot::Mutex;

use crate::format::tier_policy::TierPolicy;

/// Parts of the pool in which the share of dirty pages is counted.
const PARTS: u64 = 64;
/// The share at the start, and its bounds.
const START: u64 = 51;
const LEAST: u64 = 8;
const MOST: u64 = 56;
/// The share may change once for so many events as this part of the pool has pages.
const EVENTS_SHARE: u64 = 128;

/// Events since the share changed.
#[derive(Debug, Default)]
struct ListEvents {
    dirty_looks: u64,
    dirty_hits: u64,
    clean_looks: u64,
    clean_hits: u64,
    reread: u64,
    overwritten: u64,
}

#[derive(Debug)]
struct ListShare {
    events: ListEvents,
    /// The share of dirty pages, in parts.
    share: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct ListBalance(Mutex<ListShare>);

impl Default for ListBalance {
    fn default() -> Self {
        Self(Mutex::new(ListShare { events: ListEvents::default(), share: START }))
    }
}

impl ListBalance {
    /// Counts `looks` at dirty pages, of which `hits` were used since the last look.
    pub fn note_dirty(&self, looks: u64, hits: u64) {
        let events = &mut self.0.lock().events;
        (events.dirty_looks, events.dirty_hits) = (events.dirty_looks + looks, events.dirty_hits + hits);
    }

    /// Counts `looks` at clean pages, of which `hits` were used since the last look.
    pub fn note_clean(&self, looks: u64, hits: u64) {
        let events = &mut self.0.lock().events;
        (events.clean_looks, events.clean_hits) = (events.clean_looks + looks, events.clean_hits + hits);
    }

    /// Counts pages that were read from their SSDs again soon, and clean pages that were overwritten.
    pub fn note_mistakes(&self, reread: u64, overwritten: u64) {
        let events = &mut self.0.lock().events;
        (events.reread, events.overwritten) = (events.reread + reread, events.overwritten + overwritten);
    }

    /// Moves the share by one part if enough happened. The pool has `pages` pages.
    pub fn adjust(&self, policy: TierPolicy, pages: u64) {
        let mut lists = self.0.lock();
        let ListEvents { dirty_looks, dirty_hits, clean_looks, clean_hits, reread, overwritten } = lists.events;
        // Hits for each look, compared without a division.
        let (for_clean, for_dirty, count, factor) = match policy {
            TierPolicy::Ferrite => (reread, 2 * overwritten, reread + overwritten, 1),
            TierPolicy::Paper => (clean_hits * dirty_looks, dirty_hits * clean_looks, dirty_looks.min(clean_looks), 2),
        };
        if count < pages / EVENTS_SHARE {
            return;
        }
        let share = if for_clean > factor * for_dirty {
            lists.share - 1
        } else if for_dirty > factor * for_clean {
            lists.share + 1
        } else {
            lists.share
        };
        *lists = ListShare { events: ListEvents::default(), share: share.clamp(LEAST, MOST) };
    }

    /// Returns how many of `bytes` are for dirty pages.
    pub fn dirty_bytes(&self, bytes: u64) -> u64 {
        bytes / PARTS * self.0.lock().share
    }
}
