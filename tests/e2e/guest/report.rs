//! The output of the guest, collected once for all tests.

use std::sync::LazyLock;

use super::Stage;
use super::machine::{Machine, Running};

/// The power fails when the guest has reported this many files and tags as durable.
const FILES: u64 = 12;
const TAGS: u64 = 3;

/// The output of the guest at each stage.
pub struct Report {
    working: Vec<String>,
    writing: Vec<String>,
    afterwards: Vec<String>,
    /// The last messages of the guest's kernel.
    console: String,
}

static REPORT: LazyLock<Result<Report, String>> = LazyLock::new(|| Machine::build().map(|machine| report(&machine)));

/// Boots `machine`, cuts its power, and boots it again.
pub fn report(machine: &Machine) -> Report {
    let mut running = machine.start(&[("FERRITE_GUEST", Stage::Working.name().into())]);
    let working = until(&mut running, |line| line == "end working");
    let (mut files, mut tags, mut blocks) = (0, 0, 0);
    let writing = until(&mut running, |line| {
        let number = |word| line.strip_prefix(word).and_then(|text| text.parse::<u64>().ok()).map(|nth| nth + 1);
        files = number("durable file ").unwrap_or(files);
        tags = number("durable tag ").unwrap_or(tags);
        blocks = number("durable block ").unwrap_or(blocks);
        files >= FILES && tags >= TAGS
    });
    // Dropping the machine cuts the power.
    drop(running);
    let mut running = machine.start(&[
        ("FERRITE_GUEST", Stage::Afterwards.name().into()),
        ("FERRITE_FILES", files.to_string()),
        ("FERRITE_TAGS", tags.to_string()),
        ("FERRITE_BLOCKS", blocks.to_string()),
    ]);
    let afterwards = until(&mut running, |line| line == "end afterwards");
    drop(running);
    Report { working, writing, afterwards, console: machine.console() }
}

/// Returns the guest's lines up to the one for which `is_last` is true, or up to its end.
fn until(running: &mut Running, mut is_last: impl FnMut(&str) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(line) = running.line() {
        let last = is_last(&line);
        lines.push(line);
        if last {
            break;
        }
    }
    lines
}

impl Report {
    /// Returns the one report of this run. The first caller boots the guest twice.
    ///
    /// # Errors
    /// Returns the name of a component that this machine lacks.
    pub fn get() -> Result<&'static Self, &'static str> {
        REPORT.as_ref().map_err(String::as_str)
    }

    /// Asserts that the test called `test` passed in the guest, and prints the test's output from there.
    ///
    /// # Panics
    /// Panics with the guest's output if the test did not pass.
    pub fn assert_passed(&self, stage: Stage, test: &str) {
        let lines = match stage {
            Stage::Working => &self.working,
            Stage::Writing => &self.writing,
            Stage::Afterwards => &self.afterwards,
        };
        let passed = match stage {
            Stage::Writing => lines.last().is_some_and(|line| line.starts_with("durable ")),
            _ => lines.iter().any(|line| line.starts_with("test ") && line.ends_with(&format!("::{test} ... ok"))),
        };
        assert!(passed, "{test} did not pass in the guest:\n{}\n{}", lines.join("\n"), self.console);
        said(lines, test).for_each(|line| println!("{line}"));
    }
}

/// Returns the output of a passing test.
fn said<'l>(lines: &'l [String], test: &str) -> impl Iterator<Item = &'l String> {
    let head = format!("::{test} stdout ----");
    let after = lines.iter().skip_while(move |line| !line.ends_with(&head)).skip(1);
    after.take_while(|line| !line.is_empty())
}
