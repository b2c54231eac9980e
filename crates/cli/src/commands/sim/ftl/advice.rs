//! The advice if no scheme erases anything.

use ferrite_sim::ftl::{FlashShape, Footprint};

use super::Run;
use crate::size;

/// The extra blocks of the advised drive, which the host cannot use.
const EXTRA: u64 = 8;

/// The number of times that the trace fills the host's part of the advised drive.
const TIMES: u64 = 4;

/// The smallest number of blocks of the advised drive that the host can use.
const FEWEST: u64 = 3;

/// The pages per block of the advised drive for the smallest traces.
const SMALL_BLOCK: u32 = 4;

/// The initial state of the drives.
pub struct Begun {
    pub shape: FlashShape,
    /// The footprint of the traces, if it gives the drive's size.
    pub footprint: Option<Footprint>,
    pub is_prefilled: bool,
}

/// Returns the reason why no block was erased, and the advice.
pub fn advice(runs: &[Run], begun: &Begun) -> Option<String> {
    let Begun { shape, footprint, is_prefilled } = begun;
    let written = runs.iter().map(|run| run.figures.host_writes).max()?;
    if runs.iter().any(|run| run.figures.erases > 0) {
        return None;
    }
    if written == 0 {
        return Some("nothing was erased, for the trace writes nothing".into());
    }
    let [wrote, has] = [written, shape.flash_pages().into()].map(|pages| size::counted(pages, "page"));
    let why = format!("nothing was erased: the host wrote {wrote} to a drive of {has}");
    let Some(footprint) = footprint else {
        return Some(format!("{why}: take a smaller one by --size, or a file without --size"));
    };
    if !is_prefilled && written > u64::from(shape.extra_blocks + 1) * u64::from(shape.block_pages) {
        return Some(format!("{why}: --prefill begins with a drive in use"));
    }
    let page = u64::from(shape.page_bytes);
    let blocks = |block_pages: u32| written / u64::from(block_pages) / TIMES;
    let holds = |block_pages: &u32| {
        let blocks = blocks(*block_pages);
        blocks >= FEWEST && blocks * u64::from(*block_pages) * page >= footprint.largest + page
    };
    let found = [shape.block_pages, SMALL_BLOCK].into_iter().find(holds);
    Some(found.map_or_else(
        || format!("{why}: a longer trace shows more"),
        |block_pages| {
            let block = size::written(u64::from(block_pages) * page);
            format!("{why}: --blocks {}+{EXTRA} --block {block} --wrap is a smaller one", blocks(block_pages))
        },
    ))
}
