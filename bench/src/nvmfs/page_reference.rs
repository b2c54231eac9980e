//! What exact policies would do with the requests of a load, in a memory of the same size.

use std::collections::{BTreeMap, HashMap};

use crate::records::PageRequest;

/// Page numbers of all files of a load together.
pub type FlatPage = u64;

/// The counts of a policy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReferenceCounts {
    /// Requests whose page was in memory.
    pub hits: u64,
    /// Pages written to the SSD.
    pub written_pages: u64,
}

/// A memory of pages, of which the least recently used one leaves first.
pub struct ExactLru {
    capacity: usize,
    clock: u64,
    /// The last use of each page in memory, and whether the SSD lacks its content.
    pages: HashMap<FlatPage, (u64, bool)>,
    by_use: BTreeMap<u64, FlatPage>,
    counts: ReferenceCounts,
}

impl ExactLru {
    /// An empty memory of `capacity` pages.
    pub fn new(capacity: usize) -> Self {
        let (pages, by_use, counts) = (HashMap::new(), BTreeMap::new(), ReferenceCounts::default());
        Self { capacity: capacity.max(1), clock: 0, pages, by_use, counts }
    }

    /// Uses `page`, and makes it dirty if the request is not a read.
    pub fn request(&mut self, page: FlatPage, is_read: bool) {
        self.clock += 1;
        let before = self.pages.insert(page, (self.clock, !is_read));
        self.by_use.insert(self.clock, page);
        if let Some((used, is_dirty)) = before {
            self.counts.hits += 1;
            self.by_use.remove(&used);
            self.pages.insert(page, (self.clock, is_dirty || !is_read));
        }
        if self.pages.len() > self.capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some((_, true)) = self.pages.remove(&oldest)
        {
            self.counts.written_pages += 1;
        }
    }

    /// Writes all dirty pages to the SSD, and returns the counts since the last call.
    pub fn drain(&mut self) -> ReferenceCounts {
        for (_, is_dirty) in self.pages.values_mut() {
            self.counts.written_pages += u64::from(std::mem::replace(is_dirty, false));
        }
        std::mem::take(&mut self.counts)
    }
}

/// Returns the fewest pages that any policy writes for the writes of `requests`, even one that knows the future: the
/// writes, less the most intervals between two writes of a page of which at most `capacity` overlap.
pub fn fewest_written(capacity: usize, requests: impl Iterator<Item = (FlatPage, bool)>) -> u64 {
    let (mut last, mut kept, mut now) = (HashMap::new(), 0, 0);
    // The number of places of memory by the time at which they became free.
    let mut free = BTreeMap::from([(0_u64, capacity)]);
    for (page, _) in requests.filter(|(_, is_read)| !is_read) {
        now += 1;
        let Some(began) = last.insert(page, now) else { continue };
        let Some((&since, _)) = free.range(..=began).next_back() else { continue };
        let left = free.get_mut(&since).expect("just found");
        *left -= 1;
        if *left == 0 {
            free.remove(&since);
        }
        *free.entry(now).or_default() += 1;
        kept += 1;
    }
    now - kept
}

/// Returns the flat page of each request to files of `file_pages` pages each.
pub fn flat(request: PageRequest, file_pages: u64) -> (FlatPage, bool) {
    (request.file * file_pages + request.page, request.is_read)
}

#[cfg(test)]
mod tests;
