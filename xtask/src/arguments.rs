//! The words after `cargo xtask`, and the page that explains them.

use std::fmt;
use std::process::Command;

use crate::package::PackageKind;

/// The help page.
pub const HELP: &str = "\
The project's commands. Each exits 0 when all went well, 1 when not, 2 when it was called wrongly.

  cargo xtask test            The whole gate; this is what decides whether a change is good. Installs the Debian
                              packages that the tests need if they are missing (as root), then: format, lint, rules,
                              unit tests, model tests, crash tests, the ledger of explorations, documentation examples,
                              end to end with real clients against the release binary, exported symbols, and Python.
                              A kill test kills five times. At most 25 minutes on two cores, once built.
  cargo xtask test --quick    The part of three minutes, once built: format, lint, rules, and the unit tests without
                              those that crash or kill something or look for planted bugs.
  cargo xtask soak [--rounds N] [--seed N]
                              What takes hours: the tests that crash or kill something for N rounds (50 if not said)
                              from a new seed, which is printed, or from the seed N; and SQLite's own tests. Builds the
                              packages in two folders, which must give the same bytes. Installs, uses and removes
                              them, which needs root and the network. Boots a machine with the Debian package in
                              QEMU for up to 3 rounds of a reboot and two power failures.
  cargo xtask tidy            The rules alone: which package may name which, structure, sentences, the ledger, what is
                              frozen, and that the pages in docs/ point at what exists.
  cargo xtask prose [PATH]    Lists the lines of comments and pages below PATH that slow a reader down, with a hint each.
  cargo xtask ledger          Adds to testdata/ledger and testdata/freeze what is new: names of tests, invariants and
                              explorations (of the last `cargo xtask test`), JSON keys, golden images, symbols. Fails if
                              one of the old names is gone without a reason in testdata/ledger/gone.
  cargo xtask package [--wheel|--deb]
                              Builds the wheel of ferrite-pm and the Debian package into target/package, reproducibly.
                              With `cargo zigbuild` for glibc 2.28 and later, else for this machine's.
  cargo xtask figures NAME..  The quick form of these experiments; tables and plots go to target/figures.

A step that fails does not stop the others. The last line is always `N passed, N failed, N skipped`.

What a test may rely on:
  FERRITE_BIN      path of the release binary (end to end)
  FERRITE_SEED     where seeded tests begin; without it each has its own fixed seed
  FERRITE_ROUNDS   how often kill and crash tests repeat; without it each has its own number
A test that cannot run on this machine prints `skipped: REASON` and returns; it is counted as skipped. Tests with
`crash` or `kill` in their names or modules, and all in tests/crash* and tests/replay*, are what `soak` repeats. To see
a failure again, run its test alone with the seed that it printed: FERRITE_SEED=N cargo test -p PACKAGE NAME";

/// The number of rounds of a soak, unless given.
const SOAK_ROUNDS: u64 = 50;

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

/// A command line, parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandLine {
    /// Print the help page.
    Help,
    /// Run the gate.
    Test {
        /// Run the quick part only.
        quick: bool,
    },
    /// Check the rules.
    Tidy,
    /// List the lines that slow a reader down, below this folder.
    Prose(String),
    /// Write the ledger and the frozen lists.
    Ledger,
    /// Run the tests that take hours.
    Soak(Runs),
    /// Build these packages.
    Package(Vec<PackageKind>),
    /// Run the experiments of these names.
    Figures(Vec<String>),
}

/// Parses the words after `cargo xtask`. A soak without a seed has `new_seed`.
///
/// # Errors
/// What is wrong with the words, in one line.
pub fn parse(words: &[String], new_seed: u64) -> Result<CommandLine, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.iter().any(|word| matches!(*word, "-h" | "--help")) {
        return Ok(CommandLine::Help);
    }
    match words.as_slice() {
        [] | ["help"] => Ok(CommandLine::Help),
        ["test"] => Ok(CommandLine::Test { quick: false }),
        ["test", "--quick"] => Ok(CommandLine::Test { quick: true }),
        ["tidy"] => Ok(CommandLine::Tidy),
        ["prose"] => Ok(CommandLine::Prose(String::new())),
        ["prose", folder] => Ok(CommandLine::Prose((*folder).to_owned())),
        ["ledger"] => Ok(CommandLine::Ledger),
        ["soak", rest @ ..] => Ok(CommandLine::Soak(runs(rest, Runs { seed: new_seed, rounds: SOAK_ROUNDS })?)),
        ["package"] => Ok(CommandLine::Package(PackageKind::ALL.into())),
        ["package", "--wheel"] => Ok(CommandLine::Package(vec![PackageKind::Wheel])),
        ["package", "--deb"] => Ok(CommandLine::Package(vec![PackageKind::Deb])),
        ["figures", names @ ..] if !names.is_empty() => {
            Ok(CommandLine::Figures(names.iter().map(|name| (*name).to_owned()).collect()))
        }
        ["figures"] => Err("figures: of which experiments?".into()),
        ["test" | "tidy" | "prose" | "ledger" | "package", rest @ ..] => {
            Err(format!("`{}` is not understood here", rest.join(" ")))
        }
        [command, ..] => Err(format!("there is no command `{command}`")),
    }
}

fn runs(words: &[&str], mut runs: Runs) -> Result<Runs, String> {
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let number = words.next().and_then(|word| word.parse().ok());
        match (*option, number) {
            ("--seed", Some(number)) => runs.seed = number,
            ("--rounds", Some(number)) => runs.rounds = number,
            ("--seed" | "--rounds", None) => return Err(format!("{option} needs a number")),
            _ => return Err(format!("`{option}` is not an option here")),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests;
