//! Traces of memory accesses into the compact forms.

use std::io::Write;
use std::path::Path;

use clap::Args;
use ferrite_pool::owner::Progress;
use ferrite_sim::trace::{self, Ahead, Form, Kind, Packing, Reading, Writer, pack};
use ferrite_sim::{Input, Next};

use crate::bar::Bar;
use crate::commands::sim::llc::line;
use crate::commands::sim::output::Output;
use crate::commands::sim::warn;
use crate::outcome::{Failure, Outcome};
use crate::stop;

/// How accesses become words.
#[derive(Args)]
pub struct Accesses {
    /// The form of a trace of accesses, where its content does not tell: lackey, din, champsim, drmemtrace, ramulator,
    /// compact, compact-pc
    #[arg(long = "format", value_name = "FORM")]
    form: Option<Form>,
    /// Bytes of a line, in the compact forms
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = line)]
    line: u32,
    /// Cores of a trace of accesses: with several, the top byte of each word names the one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
}

impl Accesses {
    /// Converts.
    pub fn convert(&self, from: &Path, to: &Path, packing: Packing) -> Outcome {
        let mut trace = Ahead::new(trace::open(Input::open(from)?, self.reading())?);
        stop::watch()?;
        let mut output = Output::begin(to)?;
        let words = self.write(&mut trace, &mut output, to, packing)?;
        output.finish()?;
        warn(from, trace.is_cut());
        remark!("{words} accesses to lines");
        Ok(())
    }

    fn reading(&self) -> Reading {
        Reading { form: self.form, line_bits: self.line.ilog2(), cores: self.cores }
    }

    fn write(&self, trace: &mut Ahead, into: impl Write, to: &Path, packing: Packing) -> Outcome<u64> {
        let reading = self.reading();
        let mut writer = Writer::new(into, &to.display().to_string(), packing)?;
        let (bar, mut words, mut count) = (Bar::new(), Vec::new(), 0);
        loop {
            let mut goes_on = || bar.show(&Progress { what: format!("{count} accesses"), done: 0, total: 0 });
            match trace.batch(&mut goes_on)? {
                Next::Part(accesses) if goes_on() => {
                    for access in accesses.iter().filter(|access| access.kind != Kind::Fetch) {
                        pack(access, &reading, |word| words.push((word, access.signature)));
                    }
                }
                Next::End => break,
                _ => return Err(Failure::Failed("interrupted before the end of the trace".into())),
            }
            count += words.len() as u64;
            words.drain(..).try_for_each(|(word, signature)| writer.push(word, signature))?;
        }
        writer.finish()?;
        Ok(count)
    }
}
