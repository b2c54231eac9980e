//! `ferrite sim`.

mod convert;
mod ftl;
mod llc;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Subcommand;

use crate::outcome::{Failure, Outcome};

/// Simulate what a cache policy or a flash layer does to the life of a memory
#[derive(Subcommand)]
pub enum Sim {
    Llc(Box<llc::Llc>),
    Ftl(ftl::Ftl),
    Convert(convert::Convert),
}

impl Sim {
    /// Does it.
    pub fn run(self) -> Outcome {
        match self {
            Self::Llc(llc) => llc.run(),
            Self::Ftl(ftl) => ftl.run(),
            Self::Convert(convert) => convert.run(),
        }
    }
}

/// Refuses to write onto the trace that is read.
fn apart(from: &Path, to: &Path) -> Outcome {
    let place = |path| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|one| (one.dev(), one.ino()));
    if place(from).is_some() && place(from) == place(to) {
        return Err(Failure::Usage(format!("{} is the trace itself: write to another file", to.display())));
    }
    Ok(())
}
