//! Flash translation: the cost of a host's writes in a flash memory that is erased in blocks (nvm-storage-hierarchy.txt
//! 3.3.3).
//!
//! ```text
//! host: write page 7     FlashDrive: version 9 of page 7 is the newest
//!   --> Translation      map: page 7 -> flash page 130   (`locate`)
//!   --> Flash            |.. 128 129 [130: page 7, version 9] 131 ..|  a block: pages programmed once, erased together
//! ```
//!
//! - TL1. A flash page is programmed once between two erases of its block.
//! - TL2. The newest version of every page is where [`Translation::locate`] says, after every merge and collection;
//!   [`FlashDrive::verify`] checks it for all pages, and every read for its own.
//! - TL3. The next free block is the least erased one, of several the lowest.
//! - TL4. Figures depend on the requests alone: the same requests give the same figures, to the bit.
//! - TL5. An aged drive's flash depends at the opening on its description and seed alone. Its counts begin then.
//!
//! A scheme is one type in one file that implements [`Translation`]: [`PageLevel`] and [`Fast`] are two,
//! `examples/block_level.rs` is a third.

mod aged_flash;
mod drive_spec;
mod fast;
mod flash;
mod flash_drive;
mod flash_figures;
mod flash_shape;
mod footprint;
mod free_blocks;
mod ftl_disk;
mod layer_fault;
mod page_level;
#[cfg(test)]
mod tests;
mod trace_replay;
mod valid_pages;
mod version_ledger;
mod victims;
mod write_latency;

pub use aged_flash::{AgedFlash, FillOrder, FlashFill};
pub use drive_spec::{AnyLayer, DriveSpec, FtlScheme};
pub use fast::Fast;
pub use flash::{Flash, FlashCounts};
pub use flash_drive::FlashDrive;
pub use flash_figures::{FlashFigures, LatencyFigures, WearSpread};
pub use flash_shape::{FlashBlock, FlashPage, FlashShape, HostPage};
pub use footprint::Footprint;
pub use ftl_disk::FtlDisk;
pub use layer_fault::LayerFault;
pub use page_level::PageLevel;
pub use trace_replay::{ReplayProgress, TraceReplay};
pub use victims::VictimChoice;
pub use write_latency::{FlashTiming, WriteLatency};

/// A flash translation layer: maps each of the host's pages to a flash page, and reclaims space.
pub trait Translation {
    /// Stores the newest version of `page`, which is in the shape's range: programs it once, at any place.
    fn write(&mut self, page: HostPage, flash: &mut Flash);

    /// Drops the content of `page`, which the host needs no more.
    fn trim(&mut self, page: HostPage, flash: &mut Flash);

    /// Prefetches the state of `page`, which will be written soon. A hint, for speed alone.
    fn foresee(&self, _: HostPage) {}

    /// Returns the place of the newest version of `page`; `None` if it was never written, or trimmed since.
    fn locate(&self, page: HostPage) -> Option<FlashPage>;
}

impl<T: Translation + ?Sized> Translation for Box<T> {
    fn write(&mut self, page: HostPage, flash: &mut Flash) {
        (**self).write(page, flash);
    }

    fn trim(&mut self, page: HostPage, flash: &mut Flash) {
        (**self).trim(page, flash);
    }

    fn foresee(&self, page: HostPage) {
        (**self).foresee(page);
    }

    fn locate(&self, page: HostPage) -> Option<FlashPage> {
        (**self).locate(page)
    }
}
