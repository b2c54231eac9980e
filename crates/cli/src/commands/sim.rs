//! `ferrite sim`.

mod convert;
mod ftl;
mod llc;
mod output;

use std::path::Path;

use clap::Subcommand;

use crate::outcome::Outcome;

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

/// Says that a trace ended in the middle of a line, if it did.
fn warn(trace: &Path, is_cut: bool) {
    if is_cut {
        remark!("ferrite: {}: its last line has no end: maybe it was cut there", trace.display());
    }
}
