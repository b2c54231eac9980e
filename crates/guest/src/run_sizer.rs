//! The number of pages that a fault promotes.

use crate::RUN_PAGES;

/// Pages that a fault promotes if it continues no stream: 16 KiB.
const START_PAGES: u64 = 4;

/// Doubles the runs of a stream of faults, up to 128 KiB.
#[derive(Debug, Default)]
pub(crate) struct RunSizer {
    next: u64,
    pages: u64,
}

impl RunSizer {
    /// Returns the pages to promote for a fault at `page`.
    pub fn pages(&mut self, page: u64) -> u64 {
        let continues = page == self.next && self.pages > 0;
        self.pages = if continues { (2 * self.pages).min(RUN_PAGES) } else { START_PAGES };
        self.next = page + self.pages;
        self.pages
    }
}

#[cfg(test)]
mod tests;
