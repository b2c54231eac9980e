//! The memory itself: what each page holds, how often each block was erased, and what was done.

use super::free_blocks::FreeBlocks;
use super::{FlashBlock, FlashPage, FlashShape, HostPage};
use crate::prefetch::{ask_for, table};

/// No page, no version.
const NONE: u32 = u32::MAX;

/// What a flash page says of itself (its spare area).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageStamp {
    /// Whose content it is, or [`NONE`] where it is erased.
    page: u32,
    /// The host's write that it is of.
    version: u32,
}

/// Stamps in a line of the cache.
const LINE_STAMPS: usize = 64 / size_of::<PageStamp>();

const ERASED: PageStamp = PageStamp { page: NONE, version: 0 };

impl PageStamp {
    /// Version `version` of `page`.
    pub(super) fn new(page: HostPage, version: u32) -> Self {
        Self { page: page.0, version }
    }
}

/// What was done since it was last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages that were moved from one place of the flash to another.
    pub copied_pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// A full sequential log block became the data block as it was.
    pub switch_merges: u64,
    /// A sequential log block was filled up from elsewhere and became the data block.
    pub partial_merges: u64,
    /// The newest copies of all pages of a block were gathered in a new one.
    pub full_merges: u64,
    /// Blocks reclaimed to make room: victims of a collection, random log blocks.
    pub reclaimed_blocks: u64,
}

/// A flash memory.
pub struct Flash {
    shape: FlashShape,
    stamps: Vec<PageStamp>,
    erases: Vec<u32>,
    free: FreeBlocks,
    /// Of the host's write under way.
    pub(super) version: u32,
    /// What was done.
    pub counts: FlashCounts,
    overwritten: Option<FlashPage>,
}

impl Flash {
    /// A new one, all of it erased.
    pub fn new(shape: FlashShape) -> Self {
        Self {
            shape,
            stamps: table(ERASED, shape.flash_pages() as usize),
            erases: vec![0; shape.blocks() as usize],
            free: FreeBlocks::all(shape.blocks()),
            version: 0,
            counts: FlashCounts::default(),
            overwritten: None,
        }
    }

    /// Its size.
    pub fn shape(&self) -> FlashShape {
        self.shape
    }

    /// Erased blocks that are not taken.
    pub fn free_blocks(&self) -> u32 {
        self.free.len()
    }

    /// Takes the next free block (TL3).
    ///
    /// # Panics
    /// Where there is none: the scheme has counted wrong.
    pub fn take_free(&mut self) -> FlashBlock {
        self.free.take().expect("a scheme keeps a free block for what it is about to do")
    }

    /// Programs the host's newest version of `page`, which it is writing, at `at`.
    pub fn program(&mut self, page: HostPage, at: FlashPage) {
        self.store(PageStamp::new(page, self.version), at);
    }

    /// Moves the content of one page to another.
    pub fn copy(&mut self, from: FlashPage, to: FlashPage) {
        self.counts.copied_pages += 1;
        self.store(self.stamps[from.0 as usize], to);
    }

    fn store(&mut self, stamp: PageStamp, at: FlashPage) {
        let place = &mut self.stamps[at.0 as usize];
        if place.page != NONE {
            self.overwritten.get_or_insert(at);
        }
        *place = stamp;
    }

    /// Erases `block`, which is free from then on.
    pub fn erase(&mut self, block: FlashBlock) {
        let first = self.shape.page_at(block, 0).0 as usize;
        self.stamps[first..first + self.shape.block_pages as usize].fill(ERASED);
        self.counts.erases += 1;
        let erases = &mut self.erases[block.0 as usize];
        *erases += 1;
        self.free.put(block, *erases);
    }

    /// Whose content is at `at`, newest or not; `None` where it is erased.
    pub fn page_at(&self, at: FlashPage) -> Option<HostPage> {
        let PageStamp { page, .. } = self.stamps[at.0 as usize];
        (page != NONE).then_some(HostPage(page))
    }

    /// What is at `at`, if there is such a page, will be moved soon: for speed alone.
    pub(super) fn foresee(&self, at: FlashPage) {
        ask_for(&self.stamps, at.0 as usize);
    }

    /// All of `block` will be looked through soon: for speed alone.
    pub(super) fn foresee_block(&self, block: FlashBlock) {
        self.shape.pages_of(block).step_by(LINE_STAMPS).for_each(|at| self.foresee(at));
    }

    /// Whether `at` holds what `stamp` says.
    pub(super) fn holds(&self, stamp: PageStamp, at: FlashPage) -> bool {
        self.stamps.get(at.0 as usize) == Some(&stamp)
    }

    /// How often each block was erased.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// The first page that was programmed twice (TL1).
    pub(super) fn overwritten(&self) -> Option<FlashPage> {
        self.overwritten
    }
}
