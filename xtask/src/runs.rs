//! The seed and the number of repetitions of seeded tests.

use std::fmt;
use std::process::Command;

/// What seeded tests read from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs {
    /// The value of `FERRITE_SEED`, from which tests make random choices.
    pub seed: u64,
    /// The value of `FERRITE_ROUNDS`, the number of repetitions.
    pub rounds: u64,
}

impl Runs {
    /// Sets the variables in the environment of `command`.
    pub fn set<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.env("FERRITE_SEED", self.seed.to_string()).env("FERRITE_ROUNDS", self.rounds.to_string())
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}, {} rounds", self.seed, self.rounds)
    }
}
