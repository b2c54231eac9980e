//! `ferrite sim`.

mod convert;
mod ftl;
mod llc;
mod output;

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
