//! The words after `cargo xtask`, and the page that explains them.

use crate::runs::Runs;

/// What `--help` prints.
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
                              from a new seed, which is printed, or from the seed N; and SQLite's own tests.
  cargo xtask tidy            The rules alone: which package may name which, structure, sentences, the ledger, what is
                              frozen, and that the pages in docs/ point at what exists. Known exceptions stand in
                              xtask/ratchet.txt.
  cargo xtask prose [PATH]    Lists the lines of comments and pages below PATH that slow a reader down, with a hint each.
  cargo xtask ledger          Adds to testdata/ledger and testdata/freeze what is new: names of tests, invariants and
                              explorations (of the last `cargo xtask test`), JSON keys, golden images, symbols. Fails if
                              one of the old names is gone without a reason in testdata/ledger/gone.
  cargo xtask figures NAME..  The quick form of these experiments; tables and plots go to target/figures.

A step that fails does not stop the others. The last line is always `N passed, N failed, N skipped`.

What a test may rely on:
  FERRITE_BIN      path of the release binary (end to end)
  FERRITE_SEED     where seeded tests begin; without it each has its own fixed seed
  FERRITE_ROUNDS   how often kill and crash tests repeat; without it each has its own number
A test that cannot run on this machine prints `skipped: REASON` and returns; it is counted as skipped. Tests with
`crash` or `kill` in their names or modules, and all in tests/crash* and tests/replay*, are what `soak` repeats. To see
a failure again, run its test alone with the seed that it printed: FERRITE_SEED=N cargo test -p PACKAGE NAME";

/// Rounds of a soak if none are said.
const SOAK_ROUNDS: u64 = 50;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// The page above.
    Help,
    /// The gate.
    Test {
        /// Its short part.
        quick: bool,
    },
    /// The house rules.
    Tidy,
    /// Lines that slow a reader down, below a folder.
    Prose(String),
    /// The ledger and what is frozen, to be written again.
    Ledger,
    /// The tests that take hours.
    Soak(Runs),
    /// Experiments by name.
    Figures(Vec<String>),
}

/// Reads the words; `new_seed` is for a soak that was given none.
///
/// # Errors
/// What is wrong with them, in one line.
pub fn parse(words: &[String], new_seed: u64) -> Result<Ask, String> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words.iter().any(|word| matches!(*word, "-h" | "--help")) {
        return Ok(Ask::Help);
    }
    match words.as_slice() {
        [] | ["help"] => Ok(Ask::Help),
        ["test"] => Ok(Ask::Test { quick: false }),
        ["test", "--quick"] => Ok(Ask::Test { quick: true }),
        ["tidy"] => Ok(Ask::Tidy),
        ["prose"] => Ok(Ask::Prose(String::new())),
        ["prose", folder] => Ok(Ask::Prose((*folder).to_owned())),
        ["ledger"] => Ok(Ask::Ledger),
        ["soak", rest @ ..] => {
            let Runs { seed, rounds } = runs(rest)?;
            Ok(Ask::Soak(Runs { seed: seed.or(Some(new_seed)), rounds: rounds.or(Some(SOAK_ROUNDS)) }))
        }
        ["figures", names @ ..] if !names.is_empty() => {
            Ok(Ask::Figures(names.iter().map(|name| (*name).to_owned()).collect()))
        }
        ["figures"] => Err("figures: of which experiments?".into()),
        ["test" | "tidy" | "prose" | "ledger", rest @ ..] => {
            Err(format!("`{}` is not understood here", rest.join(" ")))
        }
        [command, ..] => Err(format!("there is no command `{command}`")),
    }
}

fn runs(words: &[&str]) -> Result<Runs, String> {
    let mut runs = Runs::default();
    let mut words = words.iter();
    while let Some(option) = words.next() {
        let number = words.next().and_then(|word| word.parse().ok());
        match (*option, number) {
            ("--seed", Some(number)) => runs.seed = Some(number),
            ("--rounds", Some(number)) => runs.rounds = Some(number),
            ("--seed" | "--rounds", None) => return Err(format!("{option} needs a number")),
            _ => return Err(format!("`{option}` is not an option here")),
        }
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Ask, String> {
        parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>(), 7)
    }

    #[test]
    fn good_words_are_understood() {
        let runs = |seed, rounds| Ok(Ask::Soak(Runs { seed: Some(seed), rounds: Some(rounds) }));
        assert_eq!(parsed(""), Ok(Ask::Help));
        assert_eq!(parsed("soak --help"), Ok(Ask::Help));
        assert_eq!(parsed("test --quick"), Ok(Ask::Test { quick: true }));
        assert_eq!(parsed("soak"), runs(7, SOAK_ROUNDS));
        assert_eq!(parsed("soak --seed 5"), runs(5, SOAK_ROUNDS));
        assert_eq!(parsed("soak --rounds 3 --seed 2"), runs(2, 3));
        assert_eq!(parsed("prose docs"), Ok(Ask::Prose("docs".into())));
        assert_eq!(parsed("ledger"), Ok(Ask::Ledger));
        assert_eq!(parsed("figures pace"), Ok(Ask::Figures(vec!["pace".into()])));
    }

    #[test]
    fn bad_words_are_told() {
        for line in
            ["nonsense", "test --fast", "crash", "soak --seed", "soak --seed x", "soak 1", "ledger all", "figures"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
