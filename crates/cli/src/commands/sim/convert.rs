//! `ferrite sim convert`.

mod accesses;

use std::fmt::Display;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use ferrite_pool::Progress;
use ferrite_sim::block_trace::{BlockFormat, BlockReadAhead, BlockTraceReader, BlockTraceWriter, ReaderOptions};
use ferrite_sim::trace::Packing;
use ferrite_sim::{NextPart, TraceInput};

use super::ftl::device;
use super::output::{Output, apart};
use super::{opened, warn};
use crate::bar::Bar;
use crate::outcome::{Failure, Outcome};
use crate::size;

/// Write a block trace in another format, or a trace of memory accesses in a compact one
///
/// Its content or --format decides how it is read, as for `sim ftl` and `sim llc`. Of block traces, formats that count
/// in pages or sectors take whole ones; those that know no trim leave trims out. Compact are words of 8 bytes,
/// little-endian, in zstd: `line << 1 | write` for each line that an access touches; quick to read, and small.
/// Compact-pc has a hash of the program counter with each, which `sim llc --policy worth` makes use of.
#[derive(Args)]
pub struct Convert {
    /// The trace; - is standard input
    from: PathBuf,
    /// The trace to write; - is standard output
    to: PathBuf,
    /// The form to write: plain, disksim, spc, msr, blkparse, iolog, compact or compact-pc
    #[arg(long = "as", value_parser = format, value_name = "FORM")]
    to_format: As,
    /// The format of the trace that is read, if its content does not show it: of a block trace plain, disksim, spc,
    /// msr, blkparse or iolog, of accesses lackey, din, champsim, drmemtrace, ramulator, compact or compact-pc
    #[arg(long, value_name = "FORMAT")]
    format: Option<String>,
    /// Of block traces: bytes of a page, in which plain ones count [default: 4K]
    #[arg(long, value_name = "BYTES", value_parser = size::parse)]
    page: Option<u64>,
    /// Of block traces: only this device's requests, of a trace of several
    #[arg(long, value_name = "N|MAJOR,MINOR", value_parser = device)]
    device: Option<u32>,
    #[command(flatten)]
    accesses: accesses::Accesses,
}

/// The size of a page in bytes, unless the user gives one.
const PAGE_BYTES: u32 = 4096;

/// The output format.
#[derive(Clone, Copy)]
enum As {
    Blocks(BlockFormat),
    Accesses(Packing),
}

impl Convert {
    /// Runs the conversion.
    pub fn run(self) -> Outcome {
        apart(&self.from, &self.to)?;
        match self.to_format {
            As::Blocks(format) => {
                self.accesses.refuse()?;
                self.blocks(format)
            }
            As::Accesses(packing) => {
                let refused = [("--page", self.page.is_some()), ("--device", self.device.is_some())];
                refuse(&refused, "block traces, and --as names a form of accesses")?;
                self.accesses.convert(&self.from, &self.to, self.named()?, packing)
            }
        }
    }

    /// Returns the format in --format, if it belongs to the converted kind of trace.
    fn named<F: FromStr<Err: Display>>(&self) -> Outcome<Option<F>> {
        let describe = |why: F::Err| Failure::Usage(format!("--format: {why}, and --as names one of these"));
        self.format.as_deref().map(str::parse).transpose().map_err(describe)
    }

    fn blocks(&self, format: BlockFormat) -> Outcome {
        let page_bytes = self.page.map_or(Ok(PAGE_BYTES), u32::try_from);
        let page_bytes = page_bytes.map_err(|_| Failure::Usage("--page is too large".into()))?;
        let options = ReaderOptions { page_bytes, format: self.named()?, device: self.device };
        let from = self.from.clone();
        let reader = opened(move || BlockTraceReader::new(TraceInput::open(&from)?, options))?;
        if self.page.is_some() && reader.format() != BlockFormat::Plain && format != BlockFormat::Plain {
            return Err(Failure::Usage(
                "--page changes nothing: neither trace is a plain one, which counts in pages".into(),
            ));
        }
        let read_as = reader.format().name();
        let mut trace = BlockReadAhead::new(reader)?;
        let mut output = Output::begin(&self.to)?;
        let (requests, left_out) = self.write(&mut trace, (format, page_bytes), &mut output)?;
        output.finish()?;
        warn(&self.from, trace.is_cut());
        remark!("{requests} requests, {read_as} to {}; {left_out} trims were left out", format.name());
        Ok(())
    }

    /// Writes the trace. Returns the number of its requests, and the number of requests that the format omits.
    fn write(
        &self,
        trace: &mut BlockReadAhead,
        how: (BlockFormat, u32),
        into: &mut dyn Write,
    ) -> Outcome<(usize, u64)> {
        let describe = |error: io::Error| format!("writing {}: {error}", self.to.display());
        let mut writer = BlockTraceWriter::new(BufWriter::new(into), how.0, how.1).map_err(describe)?;
        let (mut requests, mut left_out) = (0, 0_u64);
        let bar = Bar::new();
        loop {
            let mut goes_on = || bar.show(&Progress { what: format!("{requests} requests"), done: 0, total: 0 });
            match trace.batch(&mut goes_on)? {
                NextPart::Part(batch) if goes_on() => {
                    requests += batch.len();
                    for numbered in &batch {
                        left_out += u64::from(!writer.request(&numbered.request).map_err(describe)?);
                    }
                }
                NextPart::End => break,
                _ => return Err(Failure::Failed("interrupted before the end of the trace".into())),
            }
        }
        writer.finish().map_err(describe)?;
        Ok((requests, left_out))
    }
}

/// Refuses given options that apply to other traces.
fn refuse(given: &[(&str, bool)], of: &str) -> Outcome {
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => Err(Failure::Usage(format!("{option} is for {of}"))),
        None => Ok(()),
    }
}

fn format(text: &str) -> Result<As, String> {
    let found = BlockFormat::ALL.iter().find(|(name, _)| *name == text);
    match text {
        "compact" => Ok(As::Accesses(Packing::Words)),
        "compact-pc" => Ok(As::Accesses(Packing::Signatures)),
        _ => found
            .map(|(_, format)| As::Blocks(*format))
            .ok_or_else(|| "plain, disksim, spc, msr, blkparse, iolog, compact or compact-pc".into()),
    }
}
