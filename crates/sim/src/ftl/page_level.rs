//! A map for each page: the page-level scheme (Hu et al. 2009, the paper's reference 39).
//!
//! - PL1. Host and collected pages go to one active block, in order. It is never a victim; when it is full and a page
//!   comes, it becomes a candidate.
//! - PL2. If a host's page finds the active block full and three or fewer blocks free, blocks are first collected until
//!   four are free.
//! - PL3. Collecting copies a victim's valid pages to the active block, allocating free blocks as it fills, and erases
//!   the victim.
//! - PL4. A page of the flash is marked as valid if the map names it, and only then.

use super::valid_pages::ValidPages;
use super::victims::{Candidate, VictimSet};
use super::{Flash, FlashBlock, FlashPage, FlashShape, HostPage, Translation, VictimChoice};
use crate::prefetch::{huge_table, prefetch};
use crate::{Error, Result};

/// Free blocks at which collecting begins.
const FEW_FREE: u32 = 3;
/// No flash page.
const NONE: u32 = u32::MAX;

/// The page-level scheme.
pub struct PageLevel {
    shape: FlashShape,
    /// The place of each page, or [`NONE`].
    map: Vec<u32>,
    /// The pages that `map` names.
    valid: ValidPages,
    victims: VictimSet,
    active: ActiveBlock,
    /// Pages that a collection copies; empty otherwise.
    moving: Vec<(HostPage, FlashPage)>,
    /// Host writes so far.
    now: u64,
}

/// The block that is being filled.
struct ActiveBlock {
    block: FlashBlock,
    next: FlashPage,
    end: FlashPage,
}

impl ActiveBlock {
    /// No active block yet: treated as full.
    const NONE: Self = Self { block: FlashBlock(NONE), next: FlashPage(0), end: FlashPage(0) };

    fn is_full(&self) -> bool {
        self.next == self.end
    }
}

impl PageLevel {
    /// Returns the scheme for an erased flash of `shape`, whose victims are chosen by `choice`.
    ///
    /// # Errors
    /// The shape has too few extra blocks for collecting to end.
    pub fn new(shape: FlashShape, choice: VictimChoice) -> Result<Self> {
        if shape.extra_blocks <= FEW_FREE {
            let extra = shape.extra_blocks;
            return Err(Error::Model(format!(
                "{extra} extra blocks are too few: the page-level scheme keeps {} free, so give that many or more",
                FEW_FREE + 1
            )));
        }
        Ok(Self {
            shape,
            map: huge_table(NONE, shape.host_pages() as usize),
            valid: ValidPages::none(shape),
            victims: VictimSet::new(choice, shape),
            active: ActiveBlock::NONE,
            moving: Vec::new(),
            now: 0,
        })
    }

    /// Collects until the active block has room (PL2).
    #[cold]
    fn make_room(&mut self, flash: &mut Flash) {
        self.close();
        while flash.free_blocks() <= FEW_FREE {
            self.collect(flash);
        }
        if self.active.is_full() {
            self.open(flash);
        }
    }

    /// Makes the full active block a candidate (PL1).
    fn close(&mut self) {
        let block = self.active.block;
        if block != ActiveBlock::NONE.block {
            let invalid_pages = self.invalid_pages(block);
            self.victims.enter(Candidate { block, invalid_pages }, self.now);
            self.active = ActiveBlock::NONE;
        }
    }

    fn open(&mut self, flash: &mut Flash) {
        self.close();
        let block = flash.take_free();
        let next = self.shape.page_at(block, 0);
        self.active = ActiveBlock { block, next, end: FlashPage(next.0 + self.shape.block_pages) };
    }

    /// Collects one victim (PL3).
    fn collect(&mut self, flash: &mut Flash) {
        let victim =
            self.victims.take(self.now).expect("with a free block more than its host fills, some block is full");
        flash.foresee_block(victim);
        let mut moving = std::mem::take(&mut self.moving);
        moving.extend(self.valid.of(victim).map(|offset| {
            let from = self.shape.page_at(victim, offset);
            let page = flash.page_at(from).expect("a valid page has content");
            prefetch(&self.map, page.0 as usize);
            (page, from)
        }));
        for (page, from) in moving.drain(..) {
            if self.active.is_full() {
                self.open(flash);
            }
            let to = self.next();
            flash.copy(from, to);
            self.map[page.0 as usize] = to.0;
        }
        self.moving = moving;
        self.valid.clear(victim);
        flash.erase(victim);
        flash.counts.reclaimed_blocks += 1;
    }

    /// Allocates the next page of the active block, which has one.
    fn next(&mut self) -> FlashPage {
        let next = self.active.next;
        self.active.next.0 += 1;
        let offset = self.shape.block_pages - (self.active.end.0 - next.0);
        self.valid.enter(self.active.block, offset);
        next
    }

    fn invalidate(&mut self, old: u32) {
        if old == NONE {
            return;
        }
        let block = self.shape.block_of(FlashPage(old));
        self.valid.leave(block, old - self.shape.page_at(block, 0).0);
        if block != self.active.block {
            let invalid_pages = self.invalid_pages(block);
            self.victims.invalidate(Candidate { block, invalid_pages }, self.now);
        }
    }

    /// Returns the invalid pages of `block`, which is full.
    fn invalid_pages(&self, block: FlashBlock) -> u16 {
        (self.shape.block_pages - self.valid.count(block)) as u16
    }
}

impl Translation for PageLevel {
    fn write(&mut self, page: HostPage, flash: &mut Flash) {
        self.now += 1;
        if self.active.is_full() {
            self.make_room(flash);
        }
        let at = self.next();
        flash.program(page, at);
        let old = std::mem::replace(&mut self.map[page.0 as usize], at.0);
        self.invalidate(old);
    }

    fn trim(&mut self, page: HostPage, _: &mut Flash) {
        let old = std::mem::replace(&mut self.map[page.0 as usize], NONE);
        self.invalidate(old);
    }

    fn foresee(&self, page: HostPage) {
        prefetch(&self.map, page.0 as usize);
    }

    fn locate(&self, page: HostPage) -> Option<FlashPage> {
        let at = self.map[page.0 as usize];
        (at != NONE).then_some(FlashPage(at))
    }
}

#[cfg(test)]
mod tests;
