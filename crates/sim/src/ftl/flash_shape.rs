//! The size of a flash memory, and the numbering of its parts.

use crate::{Error, Result};

/// A page as the host numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPage(pub u32);

/// A page as the flash numbers it: the pages of block 0 first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlashPage(pub u32);

/// A block of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlashBlock(pub u32);

/// The size of a flash memory, in blocks and pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashShape {
    /// Blocks that the host sees.
    pub logical_blocks: u32,
    /// Blocks beyond those that the host sees.
    pub extra_blocks: u32,
    /// Pages of a block.
    pub block_pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

/// The most pages of a block: they are counted in 16 bits, and one count means "no candidate".
const BLOCK_PAGES_MAX: u32 = u16::MAX as u32 - 1;

impl FlashShape {
    /// Returns the shape of a device of `bytes` bytes for its host, with `percent` of its blocks more:
    /// `--over-provision`.
    ///
    /// # Errors
    /// [`Error::Model`], which says what to give instead.
    pub fn of_bytes(bytes: u64, percent: f64, like: Self) -> Result<Self> {
        let block_bytes = u64::from(like.page_bytes) * u64::from(like.block_pages);
        if block_bytes == 0 {
            return Err(Error::Model("a block has no bytes: give a page and a block at least one".into()));
        }
        let logical = bytes.div_ceil(block_bytes);
        // Rounding keeps a whole number whole although the percentage may not be exact: 16.1 % of 1000 blocks are 161.
        let extra = ((logical as f64 * percent / 100.0 * 1e6).round() / 1e6).ceil();
        let too_many =
            || Error::Model(format!("{bytes} bytes are too many blocks of {block_bytes}: give larger blocks"));
        let logical_blocks = u32::try_from(logical).map_err(|_| too_many())?;
        if !(0.0..f64::from(u32::MAX)).contains(&extra) {
            return Err(Error::Model(format!(
                "{percent} is not a percentage of over-provisioning: give one such as 10"
            )));
        }
        Ok(Self { logical_blocks, extra_blocks: extra as u32, ..like })
    }

    /// Refuses a shape whose pages cannot be numbered.
    ///
    /// # Errors
    /// [`Error::Model`], which says what is possible.
    pub fn check(self) -> Result<Self> {
        let refuse = |why: String| Err(Error::Model(why));
        if self.logical_blocks == 0 || self.page_bytes == 0 || self.block_pages == 0 {
            return refuse("a flash memory has at least one block of one page for its host".into());
        }
        if self.block_pages > BLOCK_PAGES_MAX {
            return refuse(format!("{} pages are too many for a block: {BLOCK_PAGES_MAX} at most", self.block_pages));
        }
        let pages = (u64::from(self.logical_blocks) + u64::from(self.extra_blocks)) * u64::from(self.block_pages);
        if pages > u64::from(u32::MAX - 2) {
            return refuse(format!("{pages} pages are too many: 2^32 - 2 at most, so give larger pages"));
        }
        Ok(self)
    }

    /// Returns the pages that the host sees.
    pub fn host_pages(self) -> u32 {
        self.logical_blocks * self.block_pages
    }

    /// Returns the blocks of the flash.
    pub fn blocks(self) -> u32 {
        self.logical_blocks + self.extra_blocks
    }

    /// Returns the pages of the flash.
    pub fn flash_pages(self) -> u32 {
        self.blocks() * self.block_pages
    }

    /// Returns the bytes that the host sees.
    pub fn host_bytes(self) -> u64 {
        u64::from(self.host_pages()) * u64::from(self.page_bytes)
    }

    /// Returns the block that contains `page`.
    pub fn block_of(self, page: FlashPage) -> FlashBlock {
        FlashBlock(page.0 / self.block_pages)
    }

    /// Returns the page of `block` at `offset`.
    pub fn page_at(self, block: FlashBlock, offset: u32) -> FlashPage {
        FlashPage(block.0 * self.block_pages + offset)
    }

    /// Returns all pages of `block`.
    pub fn pages_of(self, block: FlashBlock) -> impl Iterator<Item = FlashPage> + use<> {
        let first = block.0 * self.block_pages;
        (first..first + self.block_pages).map(FlashPage)
    }
}
