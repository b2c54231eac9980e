//! `ferrite sim llc`.

use clap::Args;

use crate::outcome::Outcome;

/// What each policy of the last-level cache writes back
#[derive(Args)]
pub struct Llc {}

impl Llc {
    /// Does it.
    pub fn run(self) -> Outcome {
        Err("there are no policies yet".into())
    }
}
