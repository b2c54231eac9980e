//! The seed and the number of repetitions of seeded tests.

use std::fmt;
use std::process::Command;

/// What seeded tests read from the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// The value of `FERRITE_SEED`, from which tests make random choices. If `None`, each test has its own seed.
    pub seed: Option<u64>,
    /// The value of `FERRITE_ROUNDS`, the number of repetitions. If `None`, each test has its own number.
    pub rounds: Option<u64>,
}

impl Runs {
    /// Sets the variables in the environment of `command`.
    pub fn set<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        for (name, value) in [("FERRITE_SEED", self.seed), ("FERRITE_ROUNDS", self.rounds)] {
            command.envs(value.map(|value| (name, value.to_string())));
        }
        command
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seed = self.seed.map_or_else(|| "each test's own seed".into(), |seed| format!("seed {seed}"));
        let rounds = self.rounds.map_or_else(|| "each test's own rounds".into(), |rounds| format!("{rounds} rounds"));
        write!(f, "{seed}, {rounds}")
    }
}
