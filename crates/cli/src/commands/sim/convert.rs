//! `ferrite sim convert`.

mod accesses;

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use ferrite_pool::owner::Progress;
use ferrite_sim::block_trace::{Ahead, Format, Reader, ReaderOptions, Writer};
use ferrite_sim::trace::Packing;
use ferrite_sim::{Input, Next};

use super::ftl::device;
use super::output::{Output, apart};
use super::warn;
use crate::bar::Bar;
use crate::outcome::{Failure, Outcome};
use crate::{size, stop};

/// Write a block trace in another format, or a trace of memory accesses in a compact one
///
/// What it is read as is told by its content, as for `sim ftl` and `sim llc`. Of block traces, formats that count in pages
/// or sectors take whole ones; those that know no trim leave trims out. Compact are words of 8 bytes, little-endian, in
/// zstd: `line << 1 | write` for each line that an access touches; quick to read, and small. Compact-pc has a hash of the
/// program counter with each, which `sim llc --policy worth` makes use of.
#[derive(Args)]
pub struct Convert {
    /// The trace; - is standard input
    from: PathBuf,
    /// The trace to write; - is standard output
    to: PathBuf,
    /// How
    #[arg(long = "as", value_parser = format, value_name = "plain|disksim|spc|msr|blkparse|iolog|compact|compact-pc")]
    format: As,
    /// Bytes of a page, in which plain traces count
    #[arg(long, default_value = "4K", value_parser = size::parse)]
    page: u64,
    /// Only this device's requests, of a trace of several
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = device)]
    device: Option<u32>,
    #[command(flatten)]
    accesses: accesses::Accesses,
}

/// What is written.
#[derive(Clone, Copy)]
enum As {
    Blocks(Format),
    Accesses(Packing),
}

impl Convert {
    /// Does it.
    pub fn run(self) -> Outcome {
        apart(&self.from, &self.to)?;
        match self.format {
            As::Blocks(format) => self.blocks(format),
            As::Accesses(packing) => self.accesses.convert(&self.from, &self.to, packing),
        }
    }

    fn blocks(&self, format: Format) -> Outcome {
        let page_bytes = u32::try_from(self.page).map_err(|_| "--page is too large")?;
        let options = ReaderOptions { page_bytes, format: None, device: self.device };
        let reader = Reader::new(Input::open(&self.from)?, options)?;
        let read_as = reader.format().name();
        let mut trace = Ahead::new(reader);
        stop::watch()?;
        let mut output = Output::begin(&self.to)?;
        let (requests, left_out) = self.write(&mut trace, (format, page_bytes), &mut output)?;
        output.finish()?;
        warn(&self.from, trace.is_cut());
        remark!("{requests} requests, {read_as} to {}; {left_out} trims were left out", format.name());
        Ok(())
    }

    /// How many requests the trace has, and how many of them the format leaves out.
    fn write(&self, trace: &mut Ahead, how: (Format, u32), into: &mut dyn Write) -> Outcome<(usize, u64)> {
        let told = |error: io::Error| format!("writing {}: {error}", self.to.display());
        let mut writer = Writer::new(BufWriter::new(into), how.0, how.1).map_err(told)?;
        let (mut requests, mut left_out) = (0, 0_u64);
        let bar = Bar::new();
        loop {
            let mut goes_on = || bar.show(&Progress { what: format!("{requests} requests"), done: 0, total: 0 });
            match trace.batch(&mut goes_on)? {
                Next::Part(batch) if goes_on() => {
                    requests += batch.len();
                    for numbered in &batch {
                        left_out += u64::from(!writer.request(&numbered.request).map_err(told)?);
                    }
                }
                Next::End => break,
                _ => return Err(Failure::Failed("interrupted before the end of the trace".into())),
            }
        }
        writer.finish().map_err(told)?;
        Ok((requests, left_out))
    }
}

fn format(text: &str) -> Result<As, String> {
    let found = Format::ALL.iter().find(|(name, _)| *name == text);
    match text {
        "compact" => Ok(As::Accesses(Packing::Words)),
        "compact-pc" => Ok(As::Accesses(Packing::Signatures)),
        _ => found
            .map(|(_, format)| As::Blocks(*format))
            .ok_or_else(|| "plain, disksim, spc, msr, blkparse, iolog, compact or compact-pc".into()),
    }
}
