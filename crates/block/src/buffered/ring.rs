//! The ring of one buffer: dirty pages in the order of their writes (pmbd.txt figure 4).
//!
//! ```text
//! slot        start              planned              end
//!               |  being written    |  to be written   |  free ...
//! ```
//!
//! Slot numbers count from the creation of the buffer. The position of a slot is its number modulo the number of slots.

use std::collections::HashMap;

use zerocopy::FromZeros;

use crate::shape::BLOCK;

/// Bytes of a page, the unit of dirty data.
pub(super) const PAGE: usize = BLOCK as usize;

#[derive(Clone, Copy, Default)]
struct RingSlot {
    /// The page of the disk; `None` if it was dropped.
    page: Option<u64>,
    /// The slot with older content of the page, which is being written.
    older: Option<u64>,
    /// True if the disk had no space for the page.
    is_refused: bool,
}

/// A page that the next drain writes, and its slot. Ordered by page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PlannedPage {
    pub page: u64,
    pub slot: u64,
}

/// Dirty pages and their order, as in the drawing above.
pub(super) struct PageRing {
    slots: Box<[RingSlot]>,
    bytes: Box<[u8]>,
    start: u64,
    planned: u64,
    end: u64,
    /// The slot with the newest content of each page.
    newest: HashMap<u64, u64>,
    /// No page may be added while the pool is frozen.
    pub is_frozen: bool,
}

impl PageRing {
    /// Makes an empty ring for `pages` pages; `None` if there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let bytes = <[u8]>::new_box_zeroed_with_elems(pages * PAGE).ok()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(pages).ok()?;
        slots.resize(pages, RingSlot::default());
        let (newest, slots) = (HashMap::new(), slots.into());
        Some(Self { slots, bytes, start: 0, planned: 0, end: 0, newest, is_frozen: false })
    }

    /// Returns the number of slots in use, dropped pages included.
    pub fn used(&self) -> u64 {
        self.end - self.start
    }

    pub fn is_full(&self) -> bool {
        self.used() == self.slots.len() as u64
    }

    /// Returns the number of pages with newest content in this ring.
    pub fn dirty(&self) -> u64 {
        self.newest.len() as u64
    }

    /// Returns the first slot in use and the first free slot.
    pub fn bounds(&self) -> (u64, u64) {
        (self.start, self.end)
    }

    fn at(&self, slot: u64) -> usize {
        (slot % self.slots.len() as u64) as usize
    }

    /// Returns the newest content of `page`, if it is in the ring.
    pub fn get(&self, page: u64) -> Option<&[u8]> {
        self.newest.get(&page).map(|slot| self.content(*slot))
    }

    fn content(&self, slot: u64) -> &[u8] {
        &self.bytes[self.at(slot) * PAGE..][..PAGE]
    }

    fn content_mut(&mut self, slot: u64) -> &mut [u8] {
        let at = self.at(slot) * PAGE;
        &mut self.bytes[at..at + PAGE]
    }

    /// Returns the content of `page` for a change, if it is in the ring and not being written.
    pub fn get_mut(&mut self, page: u64) -> Option<&mut [u8]> {
        let slot = *self.newest.get(&page)?;
        (slot >= self.planned).then(|| self.content_mut(slot))
    }

    /// Allocates a slot for `page`, which the caller fills; `None` if the ring is full.
    pub fn append(&mut self, page: u64) -> Option<&mut [u8]> {
        if self.is_full() {
            return None;
        }
        let slot = self.end;
        self.end += 1;
        let older = self.newest.insert(page, slot);
        let at = self.at(slot);
        self.slots[at] = RingSlot { page: Some(page), older, is_refused: false };
        Some(self.content_mut(slot))
    }

    /// Drops `page` from the ring, so that it is not written. No thread is writing it.
    pub fn forget(&mut self, page: u64) {
        let mut next = self.newest.remove(&page);
        while let Some(slot) = next.filter(|slot| *slot >= self.start) {
            let at = self.at(slot);
            self.slots[at].page = None;
            next = self.slots[at].older;
        }
    }

    /// Returns the dirty pages among `pages`, sorted.
    pub fn dirty_among(&self, pages: std::ops::Range<u64>) -> Vec<u64> {
        let mut dirty: Vec<u64> = if pages.end.saturating_sub(pages.start) < self.newest.len() as u64 {
            pages.filter(|page| self.newest.contains_key(page)).collect()
        } else {
            self.newest.keys().copied().filter(|page| pages.contains(page)).collect()
        };
        dirty.sort_unstable();
        dirty
    }

    /// Fixes the content of the slots before `until`. Returns their pages and slots, sorted by page.
    pub fn plan(&mut self, until: u64) -> Vec<PlannedPage> {
        self.planned = until;
        let page_of = |slot: u64| self.slots[self.at(slot)].page;
        let planned = |slot| Some(PlannedPage { page: page_of(slot)?, slot });
        let mut order: Vec<PlannedPage> = (self.start..until).filter_map(planned).collect();
        order.sort_unstable();
        order
    }

    /// Returns the content of a planned slot, unless its page was dropped since.
    pub fn planned(&self, PlannedPage { page, slot }: PlannedPage) -> Option<&[u8]> {
        (self.slots[self.at(slot)].page == Some(page)).then(|| self.content(slot))
    }

    /// Marks a planned slot for which the disk has no space.
    pub fn refuse(&mut self, slot: u64) {
        self.slots[self.at(slot)].is_refused = true;
    }

    /// Frees the planned slots, which are all written or refused. Refused pages move to the end, unless the ring has
    /// newer content of them.
    pub fn retire(&mut self) {
        for slot in self.start..self.planned {
            let RingSlot { page: Some(page), is_refused, .. } = self.slots[self.at(slot)] else { continue };
            if self.newest.get(&page) != Some(&slot) {
                continue;
            }
            if is_refused {
                self.put_last(page, slot);
            } else {
                self.newest.remove(&page);
            }
        }
        self.start = self.planned;
    }

    /// Moves `page` from `slot` to the end. In a full ring the end is the position of a freed slot, or of `slot`
    /// itself.
    fn put_last(&mut self, page: u64, slot: u64) {
        let (from, to) = (self.at(slot), self.at(self.end));
        self.bytes.copy_within(from * PAGE..(from + 1) * PAGE, to * PAGE);
        self.slots[to] = RingSlot { page: Some(page), ..RingSlot::default() };
        self.newest.insert(page, self.end);
        self.end += 1;
    }
}

#[cfg(test)]
mod tests;
