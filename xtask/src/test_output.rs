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
const MESSAGE_BYTES_MAX: usize = 2000;

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
mod tests;
