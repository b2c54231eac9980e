//! What exact policies do with the requests of a load, in a memory of a given size.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

use super::load_trace::{TraceStep, TraceVerb};

/// Numbers for the pages of all files of a load. The pages of one file have consecutive numbers.
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
    /// The last use of each page in memory.
    pages: BTreeMap<FlatPage, u64>,
    by_use: BTreeMap<u64, FlatPage>,
    /// The pages whose content the SSD lacks.
    dirty: BTreeSet<FlatPage>,
    counts: ReferenceCounts,
}

impl ExactLru {
    /// An empty memory of `capacity` pages.
    pub fn new(capacity: usize) -> Self {
        let (pages, by_use, dirty) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        Self { capacity, clock: 0, pages, by_use, dirty, counts: ReferenceCounts::default() }
    }

    /// Uses `page`, and makes it dirty if the request is not a read.
    pub fn request(&mut self, page: FlatPage, is_read: bool) {
        self.clock += 1;
        if let Some(used) = self.pages.insert(page, self.clock) {
            self.counts.hits += 1;
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.clock, page);
        if !is_read {
            self.dirty.insert(page);
        }
        self.set_capacity(self.capacity);
    }

    /// Gives the memory another size.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = capacity;
        while self.pages.len() > capacity
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.pages.remove(&oldest);
            self.counts.written_pages += u64::from(self.dirty.remove(&oldest));
        }
    }

    /// Writes the dirty pages of `range` to the SSD.
    pub fn clean(&mut self, range: Range<FlatPage>) {
        let dirty: Vec<FlatPage> = self.dirty.range(range).copied().collect();
        self.counts.written_pages += dirty.len() as u64;
        dirty.iter().for_each(|page| _ = self.dirty.remove(page));
    }

    /// Forgets the pages of `range`, whose file is gone.
    pub fn forget(&mut self, range: Range<FlatPage>) {
        let gone: Vec<(FlatPage, u64)> = self.pages.range(range).map(|(page, used)| (*page, *used)).collect();
        for (page, used) in gone {
            self.pages.remove(&page);
            self.by_use.remove(&used);
            self.dirty.remove(&page);
        }
    }

    /// Writes all dirty pages to the SSD, and returns the counts since the last call.
    pub fn drain(&mut self) -> ReferenceCounts {
        self.clean(0..FlatPage::MAX);
        std::mem::take(&mut self.counts)
    }
}

/// The most intervals of which at most a number overlap: each is added in the order of their ends, and kept if it can be.
struct KeptIntervals {
    /// The number of places by the time at which they became free.
    free: BTreeMap<u64, usize>,
    kept: u64,
}

impl KeptIntervals {
    fn new(capacity: usize) -> Self {
        Self { free: BTreeMap::from([(0, capacity)]), kept: 0 }
    }

    fn add(&mut self, began: u64, end: u64) {
        let Some((&since, _)) = self.free.range(..=began).rfind(|(_, places)| **places > 0) else { return };
        let left = self.free.get_mut(&since).expect("just found");
        *left -= 1;
        if *left == 0 {
            self.free.remove(&since);
        }
        *self.free.entry(end).or_default() += 1;
        self.kept += 1;
    }
}

/// Returns the fewest pages that any policy writes for `steps`, even one that knows the future: the writes, less those whose
/// page stays in memory until it is written again or removed.
pub fn fewest_written(capacity: usize, steps: &[TraceStep]) -> u64 {
    let (mut last, mut kept, mut now) = (BTreeMap::new(), KeptIntervals::new(capacity), 0);
    let mut writes = 0;
    for step in steps {
        match step.verb {
            TraceVerb::Write => {
                for page in step.pages() {
                    now += 1;
                    writes += 1;
                    last.insert(page, now).into_iter().for_each(|began| kept.add(began, now));
                }
            }
            TraceVerb::Remove => {
                now += 1;
                let gone: Vec<(FlatPage, u64)> = last.range(step.pages()).map(|(page, at)| (*page, *at)).collect();
                for (page, began) in gone {
                    last.remove(&page);
                    kept.add(began, now);
                }
            }
            TraceVerb::Read | TraceVerb::Sync => {}
        }
    }
    writes - kept.kept
}

/// Returns the most pages of `probes` that any policy has in memory behind `steps`, even one that knows the future.
pub fn most_hits(capacity: usize, steps: &[TraceStep], probes: &[TraceStep]) -> u64 {
    let (mut last, mut kept, mut now) = (HashMap::new(), KeptIntervals::new(capacity), 0);
    for (step, is_probe) in steps.iter().map(|step| (step, false)).chain(probes.iter().map(|step| (step, true))) {
        if !matches!(step.verb, TraceVerb::Read | TraceVerb::Write) {
            continue;
        }
        for page in step.pages() {
            now += 1;
            let before = last.insert(page, now);
            before.filter(|_| is_probe).into_iter().for_each(|began| kept.add(began, now));
        }
    }
    kept.kept
}

#[cfg(test)]
mod tests;
