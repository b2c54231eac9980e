//! Runs steps one after the other, measures each, and prints a summary at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{self, ProcessEnd, TimeLimits};
use crate::test_output::{TestOutput, TestTally};

/// The outcome of a step.
enum StepVerdict {
    Passed,
    Failed(String),
    NotRun(String),
}

struct StepResult {
    name: &'static str,
    took: Duration,
    verdict: StepVerdict,
    tally: TestTally,
}

/// The time that a run of steps may take.
#[derive(Clone, Copy, Debug)]
pub struct TimeAllowance {
    /// The time from start to end.
    pub total: Duration,
    /// The time between two lines of a step's output.
    pub silence: Duration,
}

/// A run of steps. Every step is tried; the run fails if one of them fails.
pub struct GateRun {
    started: Instant,
    limits: TimeLimits,
    done: Vec<StepResult>,
    skips: Vec<(String, String)>,
    failures: Vec<(String, String)>,
}

impl GateRun {
    /// Begins a run. A step that exceeds one of the two times is killed.
    pub fn within(TimeAllowance { total, silence }: TimeAllowance) -> Self {
        let started = Instant::now();
        let limits = TimeLimits { deadline: started + total, silence };
        Self { started, limits, done: Vec::new(), skips: Vec::new(), failures: Vec::new() }
    }

    /// Runs `work` as a step. The last line of its text stands in the summary. Returns true if it passed.
    pub fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<String, String>) -> bool {
        let started = begin(name);
        let result = work();
        let (Ok(text) | Err(text)) = &result;
        println!("{text}");
        let last = text.lines().last().unwrap_or_default();
        let verdict = if result.is_ok() { StepVerdict::Passed } else { StepVerdict::Failed(last.into()) };
        self.end(StepResult { name, took: started.elapsed(), verdict, tally: TestTally::default() })
    }

    /// Runs a program as a step, and counts the tests that it reports. Returns true if it passed.
    pub fn command(&mut self, name: &'static str, command: &mut Command) -> bool {
        let started = begin(name);
        println!("{}", command_line(command));
        let mut reader = TestOutput::default();
        let end = process::run(command, self.limits, |line| {
            if reader.read(line) {
                println!("{line}");
            }
        });
        let verdict = match end {
            Ok(ProcessEnd::Well) => StepVerdict::Passed,
            Ok(ProcessEnd::Badly(status)) => StepVerdict::Failed(status),
            Ok(ProcessEnd::TimeUp) => {
                let minutes = (self.limits.deadline - self.started).as_secs() / 60;
                StepVerdict::Failed(format!("the {minutes} minutes are up, killed"))
            }
            Ok(ProcessEnd::Silent) => {
                let minutes = self.limits.silence.as_secs() / 60;
                let running = reader.running_long.join(", ");
                StepVerdict::Failed(format!("no line for {minutes} minutes, killed; still running: {running}"))
            }
            Err(error) => StepVerdict::Failed(error.to_string()),
        };
        self.skips.append(&mut reader.skips);
        self.failures.append(&mut reader.failures);
        self.end(StepResult { name, took: started.elapsed(), verdict, tally: reader.tally })
    }

    /// Adds a step that cannot be tried, which counts as failed.
    pub fn not_run(&mut self, name: &'static str, why: &str) {
        self.end(StepResult {
            name,
            took: Duration::ZERO,
            verdict: StepVerdict::NotRun(why.into()),
            tally: TestTally::default(),
        });
    }

    /// Adds a step that this machine cannot run, which counts as one skipped test.
    pub fn skip(&mut self, name: &'static str, why: String) {
        println!("\n== {name}\nskipped: {why}");
        self.skips.push((name.into(), why));
        let tally = TestTally { skipped: 1, ..TestTally::default() };
        self.end(StepResult { name, took: Duration::ZERO, verdict: StepVerdict::Passed, tally });
    }

    /// Prints the summary, with what failed and the counts in the last lines. Returns true if every step passed.
    pub fn finish(self) -> bool {
        println!("\nsummary");
        for (test, reason) in &self.skips {
            println!("  skipped {test}: {reason}");
        }
        for done in &self.done {
            println!("  {:<14} {:>8.1} s  {}", done.name, done.took.as_secs_f64(), done.outcome());
        }
        println!("  {:<14} {:>8.1} s", "all", self.started.elapsed().as_secs_f64());
        for (test, how) in &self.failures {
            println!("  failed {test}: {how}");
        }
        let mut sum = TestTally::default();
        for done in &self.done {
            sum += done.counted();
        }
        println!("{sum}");
        sum.failed == 0
    }

    fn end(&mut self, done: StepResult) -> bool {
        println!("-- {}: {} ({:.1} s)", done.name, done.outcome(), done.took.as_secs_f64());
        let passed = matches!(done.verdict, StepVerdict::Passed);
        self.done.push(done);
        passed
    }
}

impl StepResult {
    fn outcome(&self) -> String {
        let counts = if self.tally == TestTally::default() { String::new() } else { format!(": {}", self.tally) };
        match &self.verdict {
            StepVerdict::Passed => format!("passed{counts}"),
            StepVerdict::Failed(what) => format!("FAILED{counts}: {what}"),
            StepVerdict::NotRun(why) => format!("NOT RUN: {why}"),
        }
    }

    /// Returns the tests of the step, with one failure more if the step failed without a failing test: it did not compile,
    /// or it crashed.
    fn counted(&self) -> TestTally {
        let lost = !matches!(self.verdict, StepVerdict::Passed) && self.tally.failed == 0;
        TestTally { failed: self.tally.failed + usize::from(lost), ..self.tally }
    }
}

fn begin(name: &str) -> Instant {
    println!("\n== {name}");
    Instant::now()
}

fn command_line(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
