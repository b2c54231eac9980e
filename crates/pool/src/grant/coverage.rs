//! The pages under grants.

use crate::extent::{Extent, Role, Zone};
use crate::layout::CHUNK_PAGES;

/// A set of pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Coverage {
    /// The first page of each run and the page after its last, in order, with gaps between runs.
    runs: Vec<(u64, u64)>,
}

/// Freed space: pages that a grant holds, and free pages.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SortedPages {
    pub held: Vec<Extent>,
    pub free: Vec<Extent>,
}

impl Coverage {
    /// Returns the pages of `extents`.
    pub fn of<'a>(extents: impl IntoIterator<Item = &'a Extent>) -> Self {
        let mut runs: Vec<(u64, u64)> = extents.into_iter().map(|extent| (extent.page, extent.end())).collect();
        runs.sort_unstable();
        runs.dedup_by(|next, last| {
            let joins = next.0 <= last.1;
            if joins {
                last.1 = last.1.max(next.1);
            }
            joins
        });
        Self { runs }
    }

    /// Returns the pages as extents.
    pub fn extents(&self) -> Vec<Extent> {
        let pieces = self.runs.iter().flat_map(|(first, end)| {
            (*first..*end).step_by(u32::MAX as usize).map(|page| piece(page, (*end).min(page + u64::from(u32::MAX))))
        });
        pieces.collect()
    }

    /// Returns true if a page of `extent` is in the set.
    pub fn touches(&self, extent: Extent) -> bool {
        self.run_from(extent.page).is_some_and(|(first, _)| first < extent.end())
    }

    /// Returns true if every page of `other` is in the set.
    pub fn contains(&self, other: &Self) -> bool {
        other.runs.iter().all(|(first, end)| self.run_from(*first).is_some_and(|run| run.0 <= *first && run.1 >= *end))
    }

    /// Sorts `extents`: pages of the normal zone one by one, chunks of the super zone as a whole.
    pub fn sort(&self, extents: &[Extent]) -> SortedPages {
        let mut sorted = SortedPages::default();
        for extent in extents {
            match extent.zone {
                Zone::Super => self.sort_chunks(*extent, &mut sorted),
                Zone::Normal => self.sort_pages(*extent, &mut sorted),
            }
        }
        sorted
    }

    fn sort_chunks(&self, extent: Extent, sorted: &mut SortedPages) {
        for page in (extent.page..extent.end()).step_by(CHUNK_PAGES as usize) {
            let chunk = Extent { page, pages: CHUNK_PAGES as u32, ..extent };
            let side = if self.touches(chunk) { &mut sorted.held } else { &mut sorted.free };
            side.push(chunk);
        }
    }

    fn sort_pages(&self, extent: Extent, sorted: &mut SortedPages) {
        let part = |first: u64, end: u64| Extent { page: first, pages: (end - first) as u32, ..extent };
        let mut page = extent.page;
        while page < extent.end() {
            let (first, end) = self.run_from(page).unwrap_or((u64::MAX, u64::MAX));
            let (first, end) = (first.clamp(page, extent.end()), end.min(extent.end()));
            sorted.free.extend((first > page).then(|| part(page, first)));
            sorted.held.extend((end > first).then(|| part(first, end)));
            page = end;
        }
    }

    /// Returns the run with `page`, or the next one.
    fn run_from(&self, page: u64) -> Option<(u64, u64)> {
        self.runs.get(self.runs.partition_point(|(_, end)| *end <= page)).copied()
    }
}

fn piece(first: u64, end: u64) -> Extent {
    Extent { page: first, pages: (end - first) as u32, role: Role::DATA, zone: Zone::Normal }
}

#[cfg(test)]
mod tests;
