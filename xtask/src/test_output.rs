//! Counts tests that passed, failed and were skipped, from the output of test binaries.

use std::fmt;
use std::ops::AddAssign;

/// The number of tests by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestTally {
    /// Tests that passed.
    pub passed: usize,
    /// Tests that failed.
    pub failed: usize,
    /// Tests that were ignored or printed `skipped: REASON`.
    pub skipped: usize,
}

impl AddAssign for TestTally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for TestTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Reads the output of test binaries run with `--show-output`, line by line.
///
/// Output of passing tests is not shown, but a line `skipped: REASON` in it counts the test as skipped.
#[derive(Debug, Default)]
pub struct TestOutput {
    /// The tests read so far.
    pub tally: TestTally,
    /// The name and the reason of each test that skipped itself.
    pub skips: Vec<(String, String)>,
    /// The name of each test that failed, with place and message of its panic.
    pub failures: Vec<(String, String)>,
    /// The tests that have been running for over a minute and have not ended.
    pub running_long: Vec<String>,
    part: OutputPart,
    test: String,
    skips_here: usize,
    is_message: bool,
}

/// The part of a binary's output that is being read. A binary prints each header twice: above the output of the tests, and
/// above a list of their names. Output of tests may look like a result, and is not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OutputPart {
    #[default]
    All,
    Successes,
    SuccessNames,
    Failures,
    FailureNames,
}

impl OutputPart {
    /// Returns the part that begins with `line`, if one does.
    fn after(self, line: &str) -> Option<Self> {
        match (line, self) {
            ("successes:", Self::All) => Some(Self::Successes),
            ("successes:", Self::Successes) => Some(Self::SuccessNames),
            ("failures:", Self::All | Self::SuccessNames) => Some(Self::Failures),
            ("failures:", Self::Failures) => Some(Self::FailureNames),
            _ if line.starts_with("test result: ") && !matches!(self, Self::Successes | Self::Failures) => {
                Some(Self::All)
            }
            _ => None,
        }
    }
}

/// The number of bytes after which no further line of a failed test's message is kept.
const MESSAGE_BYTES_MAX: usize = 400;

impl TestOutput {
    /// Reads one line. Returns true if the line should be shown.
    pub fn read(&mut self, line: &str) -> bool {
        match (self.part.after(line), self.part) {
            (Some(OutputPart::All), _) => {
                self.part = OutputPart::All;
                self.add(line);
            }
            (Some(part), _) => self.part = part,
            (None, OutputPart::Successes) => self.passing(line),
            (None, OutputPart::Failures) => self.failing(line),
            (None, _) => self.running(line),
        }
        !matches!(self.part, OutputPart::Successes | OutputPart::SuccessNames)
    }

    fn running(&mut self, line: &str) {
        let Some(test) = line.strip_prefix("test ") else { return };
        if let Some(name) = test.strip_suffix(" has been running for over 60 seconds") {
            self.running_long.push(name.to_owned());
        } else if let Some((ended, _)) = test.split_once(" ... ") {
            self.running_long.retain(|name| name != ended);
        }
    }

    /// Keeps the message of a failed test's first panic.
    fn failing(&mut self, line: &str) {
        if let Some(name) = test_begun(line) {
            self.failures.push((name.to_owned(), String::new()));
            self.is_message = false;
        }
        let Some((_, message)) = self.failures.last_mut() else { return };
        if message.is_empty() {
            self.is_message = line.starts_with("thread '") && line.contains(" panicked at ");
        }
        self.is_message &=
            !line.is_empty() && !line.starts_with("stack backtrace:") && message.len() < MESSAGE_BYTES_MAX;
        if self.is_message {
            let line = line.split_once(" panicked at ").filter(|_| message.is_empty()).map_or(line, |(_, place)| place);
            let gap = if message.is_empty() { "" } else { " " };
            *message += &format!("{gap}{}", line.trim());
        }
    }

    fn passing(&mut self, line: &str) {
        if let Some(name) = test_begun(line) {
            self.test = name.to_owned();
        }
        let already = self.skips.iter().rev().take(self.skips_here).any(|(test, _)| *test == self.test);
        if let Some(reason) = line.trim().strip_prefix("skipped: ").filter(|_| !already) {
            self.skips.push((self.test.clone(), reason.to_owned()));
            self.skips_here += 1;
        }
    }

    fn add(&mut self, line: &str) {
        let count = |what: &str| {
            let number = line.split(what).next().and_then(|before| before.trim_end().rsplit([' ', '.']).next());
            number.and_then(|number| number.parse().ok()).unwrap_or(0)
        };
        let here = std::mem::take(&mut self.skips_here);
        let passed: usize = count(" passed;");
        self.tally +=
            TestTally { passed: passed - here, failed: count(" failed;"), skipped: count(" ignored;") + here };
    }
}

/// Returns the test whose output begins with this line.
fn test_begun(line: &str) -> Option<&str> {
    line.strip_prefix("---- ")?.strip_suffix(" stdout ----")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> (TestOutput, Vec<&str>) {
        let mut reader = TestOutput::default();
        let shown = output.lines().filter(|line| reader.read(line)).collect();
        (reader, shown)
    }

    #[test]
    fn results_of_several_binaries_are_summed() {
        let (reader, shown) = read(
            "running 2 tests\ntest a ... ok\n\
             test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; finished in 0.01s\n\
             test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n",
        );
        assert_eq!(reader.tally, TestTally { passed: 16, failed: 2, skipped: 1 });
        assert_eq!(reader.tally.to_string(), "16 passed, 2 failed, 1 skipped");
        assert_eq!(shown.len(), 4);
    }

    #[test]
    fn a_test_that_skips_itself_is_not_a_passed_one() {
        let (reader, shown) = read(
            "test t::a ... ok\n\nsuccesses:\n\n---- t::a stdout ----\nseed 1\nskipped: no PKU\nskipped: again\n\n\
             successes:\n    t::a\n    t::b\n\nfailures:\n\n---- t::c stdout ----\nskipped: not this one\n\n\
             failures:\n    t::c\n\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!(reader.tally, TestTally { passed: 1, failed: 1, skipped: 1 });
        assert_eq!(reader.skips, [("t::a".to_owned(), "no PKU".to_owned())]);
        assert!(!shown.contains(&"seed 1"), "chatter of passing tests is kept back");
        assert!(shown.contains(&"---- t::c stdout ----"), "output of failing tests is shown");
    }

    /// The tests of this program print such lines, because they run steps that fail.
    #[test]
    fn output_of_a_passing_test_is_neither_shown_nor_counted() {
        let (reader, shown) = read(
            "successes:\n\n---- t::a stdout ----\n== shell\ntest result: FAILED. 3 passed; 1 failed; 0 ignored\n\
             -- shell: FAILED: exit status: 1\n\nsuccesses:\n    t::a\n\ntest result: ok. 1 passed; 0 failed; 0 ignored\n",
        );
        assert_eq!(reader.tally, TestTally { passed: 1, failed: 0, skipped: 0 });
        assert_eq!(shown, ["test result: ok. 1 passed; 0 failed; 0 ignored"]);
    }

    #[test]
    fn a_test_that_hangs_is_named() {
        let (reader, _) = read(
            "test t::a has been running for over 60 seconds\ntest t::b has been running for over 60 seconds\n\
             test t::a ... ok\ntest t::c ... ok\n",
        );
        assert_eq!(reader.running_long, ["t::b"]);
    }

    #[test]
    fn a_failed_test_is_listed_with_the_place_and_message_of_its_panic() {
        let (reader, _) = read(
            "failures:\n\n---- t::a stdout ----\nseed 1\n\nthread 't::a' (7) panicked at src/a.rs:5:9:\n\
             assertion `left == right` failed: lost\n  left: 1\nstack backtrace:\n   0: rust\n\n\
             ---- t::b stdout ----\nError: no\n\n\
             failures:\n    t::a\n    t::b\n\ntest result: FAILED. 0 passed; 2 failed; 0 ignored\n",
        );
        let message = "src/a.rs:5:9: assertion `left == right` failed: lost left: 1";
        assert_eq!(reader.failures, [("t::a".into(), message.into()), ("t::b".into(), String::new())]);
    }
}
