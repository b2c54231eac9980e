//! How writes are held back in DRAM, as the command line asks for it.

use clap::Args;
use ferrite_block::BufferOptions;

use crate::outcome::{Failure, Outcome};
use crate::request::Buffering;
use crate::size;

/// With `--guard buffered` (pmbd.txt, figures 4 to 6).
#[derive(Args, Clone, Debug, Default)]
pub struct BufferingArguments {
    /// With --guard buffered: how many buffers [default: 1]
    #[arg(long, value_name = "N")]
    buffers: Option<usize>,
    /// With --guard buffered: the size of each [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    buffer_size: Option<u64>,
    /// With --guard buffered: write each page by itself, not contiguous ones together
    #[arg(long, overrides_with = "batch")]
    no_batch: bool,
    /// With --guard buffered: write contiguous pages together, which is the default
    #[arg(long)]
    batch: bool,
    /// With --guard buffered: empty a buffer when so much of it is dirty [default: 0.7]
    #[arg(long, value_name = "PART")]
    high: Option<f64>,
    /// With --guard buffered: until so much of it is [default: 0.1]
    #[arg(long, value_name = "PART")]
    low: Option<f64>,
}

impl BufferingArguments {
    /// What was asked for, where `buffered` is the guard.
    pub fn buffering(&self, buffered: bool) -> Outcome<Option<Buffering>> {
        let Self { buffers, buffer_size, no_batch, batch, high, low } = self;
        let asked = buffers.is_some() || buffer_size.is_some() || *no_batch || *batch || high.or(*low).is_some();
        if !buffered {
            let why = "--buffers, --buffer-size, --batch, --no-batch, --high and --low go with --guard buffered";
            return if asked { Err(Failure::Usage(why.into())) } else { Ok(None) };
        }
        let usual = BufferOptions::default();
        let buffering = Buffering {
            buffers: buffers.unwrap_or(usual.buffers),
            buffer_bytes: buffer_size.unwrap_or(usual.buffer_bytes),
            batch: !no_batch,
            high: high.unwrap_or(usual.high),
            low: low.unwrap_or(usual.low),
        };
        BufferOptions::from(&buffering).check().map_err(|error| Failure::Usage(error.to_string()))?;
        Ok(Some(buffering))
    }
}
