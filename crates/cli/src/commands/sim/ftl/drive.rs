//! The size of a drive: given by the user, or derived from the traces.

use clap::Args;
use ferrite_disk_address::EXTRA_BLOCKS_MIN;
use ferrite_sim::ftl::{FlashShape, Footprint};

use crate::outcome::{Failure, Outcome};
use crate::size;

/// The default over-provisioning in per cent.
const OVER_PROVISION: f64 = 10.0;

/// The host's bytes if the trace comes from a pipe, which can be read only once.
pub const OF_A_PIPE: u64 = 24 << 30;

#[derive(Args)]
pub struct DriveArguments {
    /// Bytes that the host sees [default: up to the last byte that the traces touch; of a pipe 24G]
    #[arg(long, value_parser = size::parse)]
    size: Option<u64>,
    /// Blocks beyond those, in per cent [default: 10; without --size 8 blocks at least]
    #[arg(long, value_name = "PERCENT")]
    over_provision: Option<f64>,
    /// Both in blocks, instead
    #[arg(long, value_name = "LOGICAL+EXTRA", value_parser = blocks, conflicts_with_all = ["size", "over_provision"])]
    blocks: Option<Blocks>,
    /// Bytes of a page
    #[arg(long, default_value = "4K", value_parser = size::parse)]
    page: u64,
    /// Bytes of a block
    #[arg(long, default_value = "256K", value_parser = size::parse)]
    block: u64,
}

#[derive(Clone, Copy)]
struct Blocks {
    logical: u32,
    extra: u32,
}

impl DriveArguments {
    /// Returns true if the user gave the drive's size.
    pub fn is_named(&self) -> bool {
        self.size.is_some() || self.blocks.is_some()
    }

    /// Returns the shape of a drive with these pages and blocks, and without any block yet.
    pub fn like(&self) -> Outcome<FlashShape> {
        let page_bytes = u32::try_from(self.page).map_err(|_| Failure::Usage("--page is too large".into()))?;
        if !self.block.is_multiple_of(self.page) {
            return Err(Failure::Usage("--block is not a multiple of --page".into()));
        }
        let block_pages =
            u32::try_from(self.block / self.page).map_err(|_| Failure::Usage("--block is too large".into()))?;
        Ok(FlashShape { logical_blocks: 0, extra_blocks: 0, block_pages, page_bytes })
    }

    /// Returns the drive's shape, for traces of this footprint if it is known.
    pub fn shape(&self, footprint: Option<Footprint>) -> Outcome<FlashShape> {
        let like = self.like()?;
        let of_bytes = |bytes| FlashShape::of_bytes(bytes, self.over_provision.unwrap_or(OVER_PROVISION), like);
        let shape = match (self.blocks, self.size, footprint) {
            (Some(Blocks { logical, extra }), ..) => {
                Ok(FlashShape { logical_blocks: logical, extra_blocks: extra, ..like })
            }
            (_, Some(size), _) => of_bytes(size),
            (.., Some(footprint)) => of_bytes(footprint.end.max(1)).map(|shape| match self.over_provision {
                Some(_) => shape,
                None => FlashShape { extra_blocks: shape.extra_blocks.max(EXTRA_BLOCKS_MIN), ..shape },
            }),
            _ => of_bytes(OF_A_PIPE),
        };
        let advice = match footprint {
            Some(_) => "; --size names a smaller drive, and --wrap takes addresses modulo its size",
            None => "",
        };
        shape.and_then(FlashShape::check).map_err(|why| Failure::Usage(format!("{why}{advice}")))
    }
}

fn blocks(text: &str) -> Result<Blocks, String> {
    let parts = text.split_once('+').and_then(|(logical, extra)| Some((logical.parse().ok()?, extra.parse().ok()?)));
    let (logical, extra) = parts.ok_or_else(|| format!("{text:?} is not two numbers: write LOGICAL+EXTRA, as 64+8"))?;
    Ok(Blocks { logical, extra })
}

#[cfg(test)]
mod tests;
