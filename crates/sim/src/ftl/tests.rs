mod aged_flash;
mod canary;
mod disk;
mod fast_rules;
mod law;
mod models;
mod naive_fast;
mod naive_page;
mod page_rules;

use super::{DriveSpec, FlashDrive, FlashFigures, FlashShape, FlashTiming, FtlScheme, HostPage};

/// Returns a small shape, so that sequences can be worked out by hand.
pub(super) fn shape(logical_blocks: u32, extra_blocks: u32, block_pages: u32) -> FlashShape {
    FlashShape { logical_blocks, extra_blocks, block_pages, page_bytes: 512 }
}

pub(super) fn drive(scheme: FtlScheme, shape: FlashShape) -> FlashDrive<super::drive_spec::AnyLayer> {
    DriveSpec { scheme, shape, timing: FlashTiming::default() }.build().expect("the shape fits the scheme")
}

/// Writes `pages` in order and returns the figures.
pub(super) fn write_all(
    drive: &mut FlashDrive<super::drive_spec::AnyLayer>,
    pages: impl IntoIterator<Item = u32>,
) -> FlashFigures {
    pages.into_iter().for_each(|page| drive.write(HostPage(page)).expect("the layer keeps its promise"));
    drive.figures().expect("every page is where the layer says")
}

/// Random numbers that are the same everywhere (xorshift64*, by Marsaglia and Vigna).
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let mixed = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((mixed * u64::from(limit)) >> 32) as u32
    }
}
