//! Traces of memory accesses into the compact form.

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use ferrite_pool::owner::Progress;
use ferrite_sim::trace::{self, Form, Kind, Reading, Writer, pack};
use ferrite_sim::{Error, Input};

use crate::bar::Bar;
use crate::commands::sim::llc::line;
use crate::outcome::{Failure, Outcome};

/// How accesses become words.
#[derive(Args)]
pub struct Accesses {
    /// The form of a trace of accesses, where its content does not tell: lackey, din, champsim, drmemtrace, ramulator,
    /// compact
    #[arg(long = "format", value_name = "FORM")]
    form: Option<Form>,
    /// Bytes of a line, in the compact form
    #[arg(long, value_name = "BYTES", default_value_t = 64, value_parser = line)]
    line: u32,
    /// Cores of a trace of accesses: with several, the top byte of each word names the one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    cores: u16,
}

impl Accesses {
    /// Converts. A conversion that fails or is interrupted leaves no file.
    pub fn convert(&self, from: &Path, to: &Path) -> Outcome {
        let mut partial = to.as_os_str().to_owned();
        partial.push(".part");
        let partial = PathBuf::from(partial);
        let done = self.write(from, &partial).and_then(|words| {
            std::fs::rename(&partial, to).map_err(Error::io(format!("making {}", to.display())))?;
            Ok(words)
        });
        if done.is_err() {
            let _ = std::fs::remove_file(&partial);
        }
        remark!("{} accesses to lines", done?);
        Ok(())
    }

    fn write(&self, from: &Path, partial: &Path) -> Outcome<u64> {
        let reading = Reading { form: self.form, line_bits: self.line.ilog2(), cores: self.cores };
        let mut reader = trace::open(Input::open(from)?, reading)?;
        let name = partial.display().to_string();
        let file = File::create(partial).map_err(Error::io(format!("making {name}")))?;
        let mut writer = Writer::new(file, &name)?;
        let (bar, mut accesses, mut words, mut count) = (Bar::new(), Vec::new(), Vec::new(), 0);
        let mut more = true;
        while more {
            accesses.clear();
            words.clear();
            more = reader.read(&mut accesses)?;
            for access in accesses.iter().filter(|access| access.kind != Kind::Fetch) {
                pack(access, &reading, |word| words.push(word));
            }
            words.iter().try_for_each(|word| writer.push(*word))?;
            count += words.len() as u64;
            if !bar.show(&Progress { what: format!("{count} accesses"), done: 0, total: 0 }) {
                return Err(Failure::Failed("interrupted: nothing was written".into()));
            }
        }
        writer.finish()?;
        Ok(count)
    }
}
