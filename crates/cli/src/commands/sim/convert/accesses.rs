//! Conversion of memory access traces into the compact formats.

use std::io::Write;
use std::path::Path;

use clap::Args;
use ferrite_pool::Progress;
use ferrite_sim::NextPart;
use ferrite_sim::trace::{AccessFormat, AccessKind, AccessReadAhead, PackedWriter, Packing, TraceOptions, pack};

use super::refuse;
use crate::bar::Bar;
use crate::commands::sim::llc::{LINE, line};
use crate::commands::sim::output::Output;
use crate::commands::sim::{opened_accesses, warn};
use crate::outcome::{Failure, Outcome};

/// How accesses become words.
#[derive(Args)]
pub struct Accesses {
    /// Of accesses: bytes of a line, in the compact forms [default: 64]
    #[arg(long, value_name = "BYTES", value_parser = line)]
    line: Option<u32>,
    /// Of accesses: cores, of which the top byte of each word names the one, if there are several [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: Option<u16>,
}

impl Accesses {
    /// Converts the trace of accesses at `from` into the file at `to`.
    pub fn convert(&self, from: &Path, to: &Path, form: Option<AccessFormat>, packing: Packing) -> Outcome {
        let reading = self.reading(form);
        let (form, reader) = opened_accesses(from, reading)?;
        let mut trace = AccessReadAhead::new(reader)?;
        let mut output = Output::begin(to)?;
        let writer = PackedWriter::new(&mut output, &to.display().to_string(), packing)?;
        let words = write(&mut trace, reading, writer)?;
        output.finish()?;
        warn(from, trace.is_cut());
        let to_form = match packing {
            Packing::Words => AccessFormat::Compact,
            Packing::Signatures => AccessFormat::CompactPc,
        };
        remark!("{words} accesses to lines, {} to {}", form.name(), to_form.name());
        Ok(())
    }

    /// Refuses options for accesses if the trace is a block trace.
    pub fn refuse(&self) -> Outcome {
        let given = [("--line", self.line.is_some()), ("--cores", self.cores.is_some())];
        refuse(&given, "traces of accesses, and --as names a format of block traces")
    }

    fn reading(&self, form: Option<AccessFormat>) -> TraceOptions {
        TraceOptions { form, line_bits: self.line.unwrap_or(LINE).ilog2(), cores: self.cores.unwrap_or(1) }
    }
}

/// Writes the words, and returns their number.
fn write(trace: &mut AccessReadAhead, reading: TraceOptions, mut writer: PackedWriter<impl Write>) -> Outcome<u64> {
    let (bar, mut words, mut count) = (Bar::new(), Vec::new(), 0);
    loop {
        let mut goes_on = || bar.show(&Progress { what: format!("{count} accesses"), done: 0, total: 0 });
        match trace.batch(&mut goes_on)? {
            NextPart::Part(accesses) if goes_on() => {
                for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
                    pack(access, &reading, |word| words.push((word, access.signature)));
                }
            }
            NextPart::End => break,
            _ => return Err(Failure::Failed("interrupted before the end of the trace".into())),
        }
        count += words.len() as u64;
        words.drain(..).try_for_each(|(word, signature)| writer.push(word, signature))?;
    }
    writer.finish()?;
    Ok(count)
}
