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
struct Slot {
    /// Its page of the disk; `None` where that was dropped.
    page: Option<u64>,
    /// The slot with the content of before, which is being written.
    older: Option<u64>,
    /// The disk had no space for it.
    is_refused: bool,
}

/// Dirty pages and their order. See the drawing above.
pub(super) struct Ring {
    slots: Box<[Slot]>,
    bytes: Box<[u8]>,
    start: u64,
    planned: u64,
    end: u64,
    /// The slot with the newest content of each page.
    newest: HashMap<u64, u64>,
    /// Nothing may be added until the pool goes on.
    pub is_frozen: bool,
}

impl Ring {
    /// An empty ring with room for `pages`; `None` where there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let bytes = <[u8]>::new_box_zeroed_with_elems(pages * PAGE).ok()?;
        let mut slots = Vec::new();
        slots.try_reserve_exact(pages).ok()?;
        slots.resize(pages, Slot::default());
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
        self.slots[at] = Slot { page: Some(page), older, is_refused: false };
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
            let Slot { page: Some(page), is_refused, .. } = self.slots[self.at(slot)] else { continue };
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
        self.slots[to] = Slot { page: Some(page), ..Slot::default() };
        self.newest.insert(page, self.end);
        self.end += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(ring: &mut Ring, page: u64, byte: u8) {
        match ring.get_mut(page) {
            Some(content) => content.fill(byte),
            None => ring.append(page).expect("room").fill(byte),
        }
    }

    #[test]
    fn u2_what_is_being_written_does_not_change_and_readers_see_the_newer() {
        let mut ring = Ring::new(4).expect("memory");
        fill(&mut ring, 7, 1);
        fill(&mut ring, 7, 2);
        assert_eq!((ring.used(), ring.get(7).expect("here")[0]), (1, 2));
        let plan = ring.plan(1);
        fill(&mut ring, 7, 3);
        fill(&mut ring, 7, 4);
        assert_eq!((ring.used(), ring.dirty(), ring.get(7).expect("here")[0]), (2, 1, 4));
        assert_eq!(ring.planned(plan[0]).expect("still to be written")[0], 2);
        ring.retire();
        assert_eq!((ring.used(), ring.get(7).expect("here")[0]), (1, 4));
        ring.plan(2);
        ring.retire();
        assert_eq!((ring.used(), ring.get(7)), (0, None));
    }

    #[test]
    fn a_forgotten_page_is_not_written_in_any_of_its_versions() {
        let mut ring = Ring::new(4).expect("memory");
        fill(&mut ring, 7, 1);
        fill(&mut ring, 8, 1);
        let plan = ring.plan(2);
        fill(&mut ring, 7, 2);
        ring.forget(7);
        assert_eq!((ring.planned(plan[0]), ring.get(7)), (None, None));
        assert!(ring.planned(plan[1]).is_some());
        ring.retire();
        assert_eq!((ring.plan(3), ring.dirty()), (vec![], 0));
    }

    /// U6: all that the ring can hold of it, wherever it lies.
    #[test]
    fn u6_what_is_refused_stays_and_nothing_else() {
        for begun in 0..4 {
            let mut ring = Ring::new(4).expect("memory");
            (0..begun).for_each(|page| fill(&mut ring, page, 0));
            ring.plan(begun);
            ring.retire();
            (10..14).for_each(|page| fill(&mut ring, page, page as u8));
            let plan = ring.plan(begun + 4);
            [1, 3].into_iter().for_each(|refused: usize| ring.refuse(plan[refused].1));
            ring.retire();
            assert_eq!((ring.used(), ring.dirty_among(0..99)), (2, vec![11, 13]), "{begun}");
            fill(&mut ring, 11, 1);
            assert_eq!(ring.used(), 2, "{begun}: it can be changed where it is");
            let plan = ring.plan(begun + 6);
            fill(&mut ring, 13, 2);
            plan.iter().for_each(|(_, slot)| ring.refuse(*slot));
            ring.retire();
            let left = [11, 13].map(|page| ring.get(page).expect("here")[PAGE - 1]);
            assert_eq!((ring.used(), left), (2, [1, 2]), "{begun}: the newest of each");
            ring.plan(begun + 8);
            ring.retire();
            assert_eq!((ring.used(), ring.dirty()), (0, 0), "{begun}");
        }
    }

    #[test]
    fn slots_come_back_when_they_are_retired() {
        let mut ring = Ring::new(3).expect("memory");
        for page in 0..30 {
            fill(&mut ring, page, page as u8);
            assert_eq!(ring.is_full(), ring.used() == 3);
            if ring.is_full() {
                assert!(ring.append(99).is_none());
                let (start, _) = ring.bounds();
                assert_eq!(ring.plan(start + 2).len(), 2);
                ring.retire();
            }
        }
        assert_eq!(ring.dirty_among(0..100).len() as u64, ring.dirty());
        assert_eq!(ring.dirty_among(29..30), [29]);
    }
}
