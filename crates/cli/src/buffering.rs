//! The command-line options for buffering writes in DRAM.

use clap::Args;
use ferrite_block::BufferOptions;
use ferrite_daemon::disks::Buffering;

use crate::outcome::{Failure, Outcome};
use crate::size;

/// With `--guard buffered` (pmbd.txt, figures 4 to 6).
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "With --guard buffered")]
pub struct BufferingArguments {
    /// How many buffers, which addresses go to in turn [default: 1]
    #[arg(long, value_name = "N", value_parser = size::whole::<usize>)]
    buffers: Option<usize>,
    /// The size of each: DRAM, and what an unclean stop may lose [default: 16M]
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    buffer_size: Option<u64>,
    /// Write each page by itself, under a window of its own: to compare with. Of this and --batch the last counts
    #[arg(long, overrides_with = "batch")]
    no_batch: bool,
    /// Write contiguous pages together, under one window, which is the default
    #[arg(long, overrides_with = "no_batch")]
    batch: bool,
    /// Empty a buffer when so much of it is dirty [default: 0.7]
    #[arg(long, value_name = "PART")]
    high: Option<f64>,
    /// Until so much of it is [default: 0.1]
    #[arg(long, value_name = "PART")]
    low: Option<f64>,
}

impl BufferingArguments {
    /// Returns the requested buffering, or `None` unless `buffered` is the guard.
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
