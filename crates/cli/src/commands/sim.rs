//! `ferrite sim`.

mod convert;
mod ftl;
mod llc;
pub mod output;

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use clap::Subcommand;
use ferrite_sim::trace::{self, AccessFormat, AccessReader, TraceOptions};
use ferrite_sim::{NextPart, PartStream, TraceInput};

use crate::outcome::Outcome;
use crate::stop;

/// Simulate what a cache policy or a flash layer does to the life of a memory
#[derive(Subcommand)]
pub enum Sim {
    Llc(Box<llc::Llc>),
    Ftl(ftl::Ftl),
    Convert(convert::Convert),
}

impl Sim {
    /// Runs the subcommand.
    pub fn run(self) -> Outcome {
        match self {
            Self::Llc(llc) => llc.run(),
            Self::Ftl(ftl) => ftl.run(),
            Self::Convert(convert) => convert.run(),
        }
    }
}

/// Runs `open` on a thread and returns its result. From now on [`stop::is_asked`] reports a signal, so a signal ends
/// the wait for a pipe that sends too few bytes to detect the format.
fn opened<T: Send + 'static>(open: impl FnOnce() -> ferrite_sim::Result<T> + Send + 'static) -> Outcome<T> {
    stop::watch()?;
    let opening = PartStream::of(1, move |to| drop(to.send(open())))?;
    match opening.next(&mut || !stop::is_asked()) {
        NextPart::Part(opened) => Ok(opened?),
        NextPart::End => Err(ferrite_sim::Error::Reader.into()),
        NextPart::Stopped => Err("interrupted before it was known what the trace is".into()),
    }
}

/// Opens a trace of accesses that way, and returns its format and its reader.
fn opened_accesses(trace: &Path, reading: TraceOptions) -> Outcome<(AccessFormat, Box<dyn AccessReader>)> {
    let trace = trace.to_owned();
    opened(move || {
        let mut input = TraceInput::open(&trace)?;
        let form = AccessFormat::of(&mut input, reading)?;
        Ok((form, trace::open(input, TraceOptions { form: Some(form), ..reading })?))
    })
}

/// Returns a trace's name for messages, tables and plots, with unprintable characters escaped.
fn shown(trace: &Path) -> String {
    let mut shown = String::new();
    for chunk in trace.as_os_str().as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\u{fffe}' | '\u{ffff}' => shown.extend(character.escape_default()),
                _ if character.is_control() => shown.extend(character.escape_default()),
                _ => shown.push(character),
            }
        }
        shown.push_str(&chunk.invalid().escape_ascii().to_string());
    }
    shown
}

/// Prints a warning if a trace ended in the middle of a line.
fn warn(trace: &Path, is_cut: bool) {
    if is_cut {
        remark!("ferrite: {}: its last line has no end: maybe it was cut there", shown(trace));
    }
}

#[cfg(test)]
mod tests;
