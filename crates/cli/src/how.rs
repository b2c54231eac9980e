//! The command-line options for serving disks.

use std::path::Path;

use clap::Args;
use ferrite_daemon::disks::Serving;
use ferrite_memory::Scheme;

use crate::buffering::BufferingArguments;
use crate::command_pool::CommandPool;
use crate::medium::{MediumArguments, unknown};
use crate::outcome::Outcome;

/// How a disk is served. The defaults are the safe and fast ones.
#[derive(Args)]
#[command(next_help_heading = "How disks are served")]
pub struct How {
    /// How data reaches the medium: nt, flush, clwb, clflushopt, clflush, writeback, writeback-all or writethrough
    /// [default: nt]
    ///
    /// With the two of writeback a write is durable when flushed; with the others when it completes. writeback-all
    /// flushes every line of the pool at a flush, writethrough every 8 bytes as they are stored: as the paper compares.
    #[arg(long)]
    scheme: Option<String>,
    /// Overwrite in place: one fence instead of two, and a crash may tear a sector
    #[arg(long)]
    in_place: bool,
    /// Refuse writes, trims and zeroing
    #[arg(long)]
    read_only: bool,
    /// Read back what was written: a store that did not arrive is an error, for the price of a read a write
    #[arg(long)]
    verify: bool,
    /// Count cycles per stage for `ferrite disk stat`: costs some tens of ns a request
    #[arg(long)]
    stages: bool,
    // The medium comes last, because its heading would apply to the options after it.
    #[command(flatten)]
    pub medium: MediumArguments,
    #[command(flatten)]
    buffering: BufferingArguments,
}

impl How {
    /// Returns the options of serving a disk. Refuses options that contradict each other, before anything is opened.
    pub fn serving(&self) -> Outcome<Serving> {
        let buffering = self.buffering.buffering(self.medium.is_buffered())?;
        self.medium.check()?;
        if let Some(name) = &self.scheme {
            let known = Scheme::ALL.map(|(known, _)| known);
            Scheme::from_name(name).ok_or_else(|| unknown("scheme", name, &known))?;
        }
        Ok(Serving {
            scheme: self.scheme.clone(),
            in_place: self.in_place,
            read_only: self.read_only,
            verify: self.verify,
            stages: self.stages,
            buffering,
        })
    }

    /// Opens the pool at `path` with the options of the medium, or connects to it.
    pub fn command_pool(&self, path: &Path) -> Outcome<CommandPool> {
        CommandPool::with(path, &self.medium)
    }
}

#[cfg(test)]
mod tests;
