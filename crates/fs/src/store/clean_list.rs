//! The clean pages of the pool in the order in which they are evicted.
//!
//! TI20 (`tier.rs`) is kept here.
//!
//! An entry may be outdated, because a page loses its shadow without a look at the list. Its user compares both.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::Ino;
use crate::format::word::AwayPage;

/// Entries that the list may hold beyond twice the clean pages, before outdated entries are removed.
const OUTDATED_MIN: usize = 1024;

/// A page of a file that is clean, or was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CleanPage {
    pub ino: Ino,
    /// The page of the file.
    pub page: u64,
    /// The offset of its bytes in the pool.
    pub place: u64,
    /// Its shadow.
    pub away: AwayPage,
}

/// How a page became clean, which decides when it is evicted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanOrigin {
    /// It was destaged, as one of the pages that were used least recently.
    Destaged,
    /// It was read once from an SSD (TI20).
    ReadOnce,
    /// It was read again from an SSD.
    ReadAgain,
}

/// Result of a look at a page of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CleanUse {
    /// The page is clean no more.
    Outdated,
    /// The page was used since the last look.
    Used,
    /// The page was not used.
    Unused,
}

/// Pages taken from the list, and how many of the looked-at ones had been used.
#[derive(Debug, Default)]
pub(crate) struct ListedVictims {
    pub pages: Vec<CleanPage>,
    pub looks: u64,
    pub hits: u64,
}

#[derive(Debug, Default)]
struct CleanQueues {
    kept: VecDeque<CleanPage>,
    /// With whether the use by which the page came in was looked at.
    probation: VecDeque<(CleanPage, bool)>,
}

impl CleanQueues {
    fn len(&self) -> usize {
        self.kept.len() + self.probation.len()
    }
}

/// The list; see the module.
#[derive(Debug)]
pub(crate) struct CleanList {
    probation_max: usize,
    queues: Mutex<CleanQueues>,
}

impl CleanList {
    /// An empty list for a pool of `pages` pages.
    pub fn new(pages: u64) -> Self {
        Self { probation_max: (pages / 16) as usize, queues: Mutex::default() }
    }

    /// Adds a page. `is_clean` returns true for an entry whose page is clean; `clean` is the number of clean pages.
    pub fn add(&self, page: CleanPage, origin: CleanOrigin, clean: u64, is_clean: impl Fn(&CleanPage) -> bool) {
        let mut queues = self.queues.lock();
        match origin {
            CleanOrigin::ReadOnce => queues.probation.push_back((page, false)),
            CleanOrigin::Destaged | CleanOrigin::ReadAgain => queues.kept.push_back(page),
        }
        if queues.len() > 2 * clean as usize + OUTDATED_MIN {
            queues.kept.retain(&is_clean);
            queues.probation.retain(|(page, _)| is_clean(page));
        }
    }

    /// Takes up to `most` pages that were not used since the last look, the least recently used first. `use_of` clears
    /// the mark of a use.
    pub fn take_victims(&self, most: usize, use_of: impl Fn(&CleanPage) -> CleanUse) -> ListedVictims {
        let mut victims = ListedVictims::default();
        let mut queues = self.queues.lock();
        // Each page is looked at three times at most: on probation twice, and once more when its mark is clear.
        for _ in 0..3 * queues.len() {
            if victims.pages.len() >= most {
                break;
            }
            let is_probation = queues.probation.len() > self.probation_max || queues.kept.is_empty();
            let next = if is_probation { queues.probation.pop_front() } else { None };
            let (page, is_known) = match next {
                Some(next) => next,
                None => match queues.kept.pop_front() {
                    Some(page) => (page, true),
                    None => break,
                },
            };
            let found = use_of(&page);
            victims.looks += u64::from(found != CleanUse::Outdated);
            victims.hits += u64::from(found == CleanUse::Used);
            match found {
                CleanUse::Outdated => {}
                CleanUse::Unused => victims.pages.push(page),
                CleanUse::Used if is_known => queues.kept.push_back(page),
                CleanUse::Used => queues.probation.push_back((page, true)),
            }
        }
        victims
    }

    /// Returns a page that was taken and is not evicted to the end of the list.
    pub fn keep(&self, page: CleanPage) {
        self.queues.lock().kept.push_back(page);
    }
}
