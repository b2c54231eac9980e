//! Where seeded tests begin, and how often they repeat.

use std::fmt;
use std::process::Command;

/// What the seeded tests are told through the environment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runs {
    /// `FERRITE_SEED`: where their randomness starts; their own default without.
    pub seed: Option<u64>,
    /// `FERRITE_ROUNDS`: how often they repeat; their own default without.
    pub rounds: Option<u64>,
}

impl Runs {
    /// Tells `command`.
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
