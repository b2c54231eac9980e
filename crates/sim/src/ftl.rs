//! Flash translation: what a host's writes cost a flash memory that is erased in blocks (nvm-storage-hierarchy.txt 3.3.3).
//!
//! ```text
//! host: write page 7        Drive: version 9 of page 7 is the newest
//!   --> Translation         map: page 7 -> flash page 130   (`locate`)
//!   --> Flash               |.. 128 129 [130: page 7, version 9] 131 ..|  a block: pages programmed once, erased together
//! ```
//!
//! - TL1. A flash page is programmed once between two erases of its block.
//! - TL2. The newest version of every page is where [`Translation::locate`] says, whatever was merged or collected;
//!   [`FlashDrive::verify`] checks it for all pages, and every read for its own.
//! - TL3. The next free block is the least erased one, of several the lowest.
//! - TL4. Figures depend on the requests alone: the same ones give the same figures, to the bit.
//!
//! A scheme is one type in one file that implements [`Translation`]: [`PageLevel`] and [`Fast`] are two,
//! `examples/block_level.rs` is a third.

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

/// A flash translation layer: it knows where each of the host's pages lies, and makes room.
pub trait Translation {
    /// Stores the newest version of `page`, which is in the shape's range: programs it once, wherever it likes.
    fn write(&mut self, page: HostPage, flash: &mut Flash);

    /// The content of `page` is not needed any more.
    fn trim(&mut self, page: HostPage, flash: &mut Flash);

    /// `page` will be written soon: what is known of it may be brought near. A hint, for speed alone.
    fn foresee(&self, _: HostPage) {}

    /// Where the newest version of `page` is; `None` if it was never written, or trimmed since.
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
