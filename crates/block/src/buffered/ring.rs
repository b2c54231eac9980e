//! One buffer: dirty pages in a ring, in the order in which they came (pmbd.txt figure 4).
//!
//! ```text
//! slot        start              planned              end
//!               |  being written    |  to be written   |  free ...
//! ```
//!
//! Slots are numbered from the buffer's making on; a slot's number modulo the slots there are is its place.

use std::collections::HashMap;

use zerocopy::FromZeros;

use crate::shape::BLOCK;

/// Bytes of a page, the unit that is dirty or not.
pub(super) const PAGE: usize = BLOCK as usize;

#[derive(Clone, Copy, Default)]
struct RingSlot {
    /// Its page of the disk; `None` where that was dropped.
    page: Option<u64>,
    /// The slot with the content of before, which is being written.
    older: Option<u64>,
    /// The disk had no space for it.
    is_refused: bool,
}

/// Dirty pages and their order. See the drawing above.
pub(super) struct PageRing {
    slots: Box<[RingSlot]>,
    bytes: Box<[u8]>,
    start: u64,
    planned: u64,
    end: u64,
    /// The slot with the newest content of each page.
    newest: HashMap<u64, u64>,
    /// Nothing may be added until the pool goes on.
    pub is_frozen: bool,
}

impl PageRing {
    /// An empty ring with room for `pages`; `None` where there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let bytes = <[u8]>::new_box_zeroed_with_elems(pages * PAGE).ok()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(pages).ok()?;
        slots.resize(pages, RingSlot::default());
        let (newest, slots) = (HashMap::new(), slots.into());
        Some(Self { slots, bytes, start: 0, planned: 0, end: 0, newest, is_frozen: false })
    }

    /// Slots in use, those of dropped pages included.
    pub fn used(&self) -> u64 {
        self.end - self.start
    }

    pub fn is_full(&self) -> bool {
        self.used() == self.slots.len() as u64
    }

    /// Pages whose newest content is here.
    pub fn dirty(&self) -> u64 {
        self.newest.len() as u64
    }

    /// The first slot that is in use, and the first that is free.
    pub fn bounds(&self) -> (u64, u64) {
        (self.start, self.end)
    }

    fn at(&self, slot: u64) -> usize {
        (slot % self.slots.len() as u64) as usize
    }

    /// The newest content of `page`, if it is here.
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

    /// The content of `page`, to be changed: where it is here and nobody is writing it.
    pub fn get_mut(&mut self, page: u64) -> Option<&mut [u8]> {
        let slot = *self.newest.get(&page)?;
        (slot >= self.planned).then(|| self.content_mut(slot))
    }

    /// Gives `page` a new slot, which the caller fills; `None` where there is no room.
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

    /// Forgets what is here of `page`: it will not be written. Nobody is writing it now.
    pub fn forget(&mut self, page: u64) {
        let mut next = self.newest.remove(&page);
        while let Some(slot) = next.filter(|slot| *slot >= self.start) {
            let at = self.at(slot);
            self.slots[at].page = None;
            next = self.slots[at].older;
        }
    }

    /// The pages that are dirty here among `pages`.
    pub fn dirty_among(&self, pages: std::ops::Range<u64>) -> Vec<u64> {
        let mut dirty: Vec<u64> = if pages.end.saturating_sub(pages.start) < self.newest.len() as u64 {
            pages.filter(|page| self.newest.contains_key(page)).collect()
        } else {
            self.newest.keys().copied().filter(|page| pages.contains(page)).collect()
        };
        dirty.sort_unstable();
        dirty
    }

    /// Fixes the content of the slots before `until` and gives them, with their pages, in the order of the pages.
    pub fn plan(&mut self, until: u64) -> Vec<(u64, u64)> {
        self.planned = until;
        let page_of = |slot: u64| self.slots[self.at(slot)].page;
        let mut order: Vec<(u64, u64)> = (self.start..until).filter_map(|slot| Some((page_of(slot)?, slot))).collect();
        order.sort_unstable();
        order
    }

    /// The content of a planned slot, unless its page was forgotten since.
    pub fn planned(&self, (page, slot): (u64, u64)) -> Option<&[u8]> {
        (self.slots[self.at(slot)].page == Some(page)).then(|| self.content(slot))
    }

    /// Notes that the disk has no space for a planned slot.
    pub fn refuse(&mut self, slot: u64) {
        self.slots[self.at(slot)].is_refused = true;
    }

    /// Frees the planned slots, which are all written or refused. What was refused goes behind all that came since; where
    /// that has a newer content of the page, it goes.
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

    /// Moves `page` from `slot` to the end. Where the ring is full that is the place of a slot before, which is done with,
    /// or of this one.
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
