//! Pages that were read from SSDs and not used yet, or used and kept for the next reader.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::format::word::AwayPage;

/// A page that was read from an SSD.
#[derive(Clone, Debug)]
pub(crate) struct FetchedPage {
    /// Of the segment before it was read.
    pub sequence: u64,
    /// Its bytes, or the reason for which they could not be read.
    pub found: Result<Arc<[u8]>, String>,
}

/// A bounded number of pages; the oldest goes first.
#[derive(Debug)]
pub(crate) struct FetchedPages {
    pages_max: usize,
    kept: Mutex<KeptPages>,
    /// Pages were read ahead.
    is_read: Condvar,
}

#[derive(Debug, Default)]
struct KeptPages {
    pages: BTreeMap<AwayPage, FetchedPage>,
    order: VecDeque<AwayPage>,
    /// Pages that another thread reads ahead.
    ahead: BTreeSet<AwayPage>,
}

/// Pages that are kept at least, so that a read of many has all of them at once.
const PAGES_MIN: u64 = 1024;

impl FetchedPages {
    /// No page, and room for `pages`.
    pub fn new(pages: u64) -> Self {
        Self { pages_max: pages.max(PAGES_MIN) as usize, kept: Mutex::default(), is_read: Condvar::new() }
    }

    /// Adds a page that was read.
    pub fn add(&self, page: AwayPage, fetched: FetchedPage) {
        let mut kept = self.kept.lock();
        if kept.pages.insert(page, fetched).is_none() {
            kept.order.push_back(page);
        }
        while kept.order.len() > self.pages_max
            && let Some(oldest) = kept.order.pop_front()
        {
            kept.pages.remove(&oldest);
        }
    }

    /// Returns what was read of `page`, if its segment has `sequence` still. Once a failure was returned, all that failed
    /// is read again.
    pub fn get(&self, page: AwayPage, sequence: u64) -> Option<Result<Arc<[u8]>, String>> {
        let mut kept = self.kept.lock();
        let found = kept.pages.get(&page).filter(|fetched| fetched.sequence == sequence)?.found.clone();
        if found.is_err() {
            let KeptPages { pages, order, .. } = &mut *kept;
            pages.retain(|_, fetched| fetched.found.is_ok());
            order.retain(|page| pages.contains_key(page));
        }
        Some(found)
    }
    /// Notes that `pages` are read ahead. Returns them without pages that are kept or noted already.
    pub fn begin_ahead(&self, mut pages: Vec<AwayPage>) -> Vec<AwayPage> {
        let mut kept = self.kept.lock();
        let KeptPages { pages: there, ahead, .. } = &mut *kept;
        pages.retain(|page| !there.contains_key(page) && ahead.insert(*page));
        pages
    }

    /// Notes that `pages` are not read ahead any more.
    pub fn end_ahead(&self, pages: &[AwayPage]) {
        let mut kept = self.kept.lock();
        pages.iter().for_each(|page| _ = kept.ahead.remove(page));
        drop(kept);
        self.is_read.notify_all();
    }

    /// Waits while any of `pages` is read ahead.
    pub fn wait_for_ahead(&self, pages: &[AwayPage]) {
        let mut kept = self.kept.lock();
        while pages.iter().any(|page| kept.ahead.contains(page)) {
            self.is_read.wait(&mut kept);
        }
    }
}
