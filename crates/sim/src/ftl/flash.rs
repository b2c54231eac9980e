//! The flash memory: the content of each page, the erases of each block, and the counts of operations.

use super::free_blocks::FreeBlocks;
use super::{FlashBlock, FlashPage, FlashShape, HostPage};
use crate::prefetch::{huge_table, prefetch};

/// No page, no version.
const NONE: u32 = u32::MAX;

/// The spare area of a flash page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageStamp {
    /// The host's page, or [`NONE`] if the flash page is erased.
    page: u32,
    /// The version: the number of the host's write.
    version: u32,
}

/// Stamps in a line of the processor's cache.
const LINE_STAMPS: usize = 64 / size_of::<PageStamp>();

const ERASED: PageStamp = PageStamp { page: NONE, version: 0 };

impl PageStamp {
    /// Returns the stamp of version `version` of `page`.
    pub(super) fn new(page: HostPage, version: u32) -> Self {
        Self { page: page.0, version }
    }
}

/// The operations since the last reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlashCounts {
    /// Pages that were moved from one place of the flash to another.
    pub copied_pages: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Merges in which a full sequential log block became the data block unchanged.
    pub switch_merges: u64,
    /// Merges in which a sequential log block was filled up from elsewhere and became the data block.
    pub partial_merges: u64,
    /// Merges that copied the newest versions of all pages of a block into a new block.
    pub full_merges: u64,
    /// Blocks reclaimed for space: victims of a collection, random log blocks.
    pub reclaimed_blocks: u64,
}

/// A flash memory.
pub struct Flash {
    shape: FlashShape,
    stamps: Vec<PageStamp>,
    erases: Vec<u32>,
    free: FreeBlocks,
    /// The version of the host's current write.
    pub(super) version: u32,
    /// The operations since the last reset.
    pub counts: FlashCounts,
    overwritten: Option<FlashPage>,
}

impl Flash {
    /// Returns a new flash memory, all of it erased.
    pub fn new(shape: FlashShape) -> Self {
        Self {
            shape,
            stamps: huge_table(ERASED, shape.flash_pages() as usize),
            erases: vec![0; shape.blocks() as usize],
            free: FreeBlocks::all(shape.blocks()),
            version: 0,
            counts: FlashCounts::default(),
            overwritten: None,
        }
    }

    /// Returns the shape.
    pub fn shape(&self) -> FlashShape {
        self.shape
    }

    /// Returns the number of erased blocks that are not allocated.
    pub fn free_blocks(&self) -> u32 {
        self.free.len()
    }

    /// Allocates the next free block (TL3).
    ///
    /// # Panics
    /// No block is free: the scheme has counted wrong.
    pub fn take_free(&mut self) -> FlashBlock {
        self.free.take().expect("a scheme keeps a free block for what it is about to do")
    }

    /// Programs the host's newest version of `page`, the page of the current write, at `at`.
    pub fn program(&mut self, page: HostPage, at: FlashPage) {
        self.store(PageStamp::new(page, self.version), at);
    }

    /// Copies the content of one page to another.
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

    /// Erases `block`, which becomes free.
    pub fn erase(&mut self, block: FlashBlock) {
        let first = self.shape.page_at(block, 0).0 as usize;
        self.stamps[first..first + self.shape.block_pages as usize].fill(ERASED);
        self.counts.erases += 1;
        let erases = &mut self.erases[block.0 as usize];
        *erases += 1;
        self.free.put(block, *erases);
    }

    /// Returns the page whose content is at `at`, newest or not; `None` if `at` is erased.
    pub fn page_at(&self, at: FlashPage) -> Option<HostPage> {
        let PageStamp { page, .. } = self.stamps[at.0 as usize];
        (page != NONE).then_some(HostPage(page))
    }

    /// Prefetches the stamp at `at`, which will be moved soon, if it exists: for speed alone.
    pub(super) fn foresee(&self, at: FlashPage) {
        prefetch(&self.stamps, at.0 as usize);
    }

    /// Prefetches all stamps of `block`, which will be scanned soon: for speed alone.
    pub(super) fn foresee_block(&self, block: FlashBlock) {
        self.shape.pages_of(block).step_by(LINE_STAMPS).for_each(|at| self.foresee(at));
    }

    /// Returns true if `at` holds `stamp`.
    pub(super) fn holds(&self, stamp: PageStamp, at: FlashPage) -> bool {
        self.stamps.get(at.0 as usize) == Some(&stamp)
    }

    /// Returns how often each block was erased.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Returns the first page that was programmed twice (TL1).
    pub(super) fn overwritten(&self) -> Option<FlashPage> {
        self.overwritten
    }
}
