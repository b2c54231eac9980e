//! Steps one after the other, each with its time; a sum at the end.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::process::{self, End, Limits};
use crate::tally::{Reader, Tally};

/// What became of a step.
enum Verdict {
    Passed,
    Failed(String),
    NotRun(String),
}

struct Done {
    name: &'static str,
    took: Duration,
    verdict: Verdict,
    tally: Tally,
}

/// The time a run may take.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// In all.
    pub total: Duration,
    /// Between two lines of a step's output.
    pub silence: Duration,
}

/// A run of steps. All are tried; one that fails makes the run fail.
pub struct Gate {
    started: Instant,
    limits: Limits,
    done: Vec<Done>,
    skips: Vec<(String, String)>,
    failures: Vec<(String, String)>,
}

impl Gate {
    /// A run that may take so long in all, and so long without a line of output; after that what runs is killed.
    pub fn within(Allowance { total, silence }: Allowance) -> Self {
        let started = Instant::now();
        let limits = Limits { deadline: started + total, silence };
        Self { started, limits, done: Vec::new(), skips: Vec::new(), failures: Vec::new() }
    }

    /// A step that is work of our own: what was done, or what is wrong, its last line the sum of it.
    pub fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<String, String>) -> bool {
        let started = begin(name);
        let result = work();
        let (Ok(text) | Err(text)) = &result;
        println!("{text}");
        let last = text.lines().last().unwrap_or_default();
        let verdict = if result.is_ok() { Verdict::Passed } else { Verdict::Failed(last.into()) };
        self.end(Done { name, took: started.elapsed(), verdict, tally: Tally::default() })
    }

    /// A step that is a program; what it tells of tests is counted.
    pub fn command(&mut self, name: &'static str, command: &mut Command) -> bool {
        let started = begin(name);
        println!("{}", told(command));
        let mut reader = Reader::default();
        let end = process::run(command, self.limits, |line| {
            if reader.take(line) {
                println!("{line}");
            }
        });
        let verdict = match end {
            Ok(End::Well) => Verdict::Passed,
            Ok(End::Badly(status)) => Verdict::Failed(status),
            Ok(End::TimeUp) => {
                let minutes = (self.limits.deadline - self.started).as_secs() / 60;
                Verdict::Failed(format!("the {minutes} minutes are up, killed"))
            }
            Ok(End::Silent) => {
                let minutes = self.limits.silence.as_secs() / 60;
                Verdict::Failed(format!("no line for {minutes} minutes, killed"))
            }
            Err(error) => Verdict::Failed(error.to_string()),
        };
        self.skips.append(&mut reader.skips);
        self.failures.append(&mut reader.failures);
        self.end(Done { name, took: started.elapsed(), verdict, tally: reader.tally })
    }

    /// A step that cannot be tried counts as failed.
    pub fn not_run(&mut self, name: &'static str, why: &str) {
        self.end(Done { name, took: Duration::ZERO, verdict: Verdict::NotRun(why.into()), tally: Tally::default() });
    }

    /// Prints the sum, the counts last, and says whether all went well.
    pub fn finish(self) -> bool {
        println!("\nsummary");
        for (test, reason) in &self.skips {
            println!("  skipped {test}: {reason}");
        }
        for (test, how) in &self.failures {
            println!("  failed {test}: {how}");
        }
        for done in &self.done {
            println!("  {:<14} {:>8.1} s  {}", done.name, done.took.as_secs_f64(), done.outcome());
        }
        println!("  {:<14} {:>8.1} s", "all", self.started.elapsed().as_secs_f64());
        let mut sum = Tally::default();
        for done in &self.done {
            sum += done.counted();
        }
        println!("{sum}");
        sum.failed == 0
    }

    fn end(&mut self, done: Done) -> bool {
        println!("-- {}: {} ({:.1} s)", done.name, done.outcome(), done.took.as_secs_f64());
        let passed = matches!(done.verdict, Verdict::Passed);
        self.done.push(done);
        passed
    }
}

impl Done {
    fn outcome(&self) -> String {
        let counts = if self.tally == Tally::default() { String::new() } else { format!(": {}", self.tally) };
        match &self.verdict {
            Verdict::Passed => format!("passed{counts}"),
            Verdict::Failed(what) => format!("FAILED{counts}: {what}"),
            Verdict::NotRun(why) => format!("NOT RUN: {why}"),
        }
    }

    /// Its tests; one failure where it failed without a failing test (it did not compile, it crashed).
    fn counted(&self) -> Tally {
        let lost = !matches!(self.verdict, Verdict::Passed) && self.tally.failed == 0;
        Tally { failed: self.tally.failed + usize::from(lost), ..self.tally }
    }
}

fn begin(name: &str) -> Instant {
    println!("\n== {name}");
    Instant::now()
}

fn told(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const MINUTE: Allowance = Allowance { total: Duration::from_secs(60), silence: Duration::from_secs(60) };

    fn run(script: &str) -> Tally {
        let mut gate = Gate::within(MINUTE);
        gate.command("shell", &mut shell(script));
        gate.done[0].counted()
    }

    const RESULT: &str = "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'";

    #[test]
    fn tests_are_counted_and_a_crash_without_a_result_is_a_failure() {
        assert_eq!(run(RESULT), Tally { passed: 3, failed: 0, skipped: 1 });
        assert_eq!(run(&format!("{RESULT}; kill -SEGV $$")), Tally { passed: 3, failed: 1, skipped: 1 });
        assert_eq!(run("exit 101"), Tally { passed: 0, failed: 1, skipped: 0 });
    }

    #[test]
    fn what_was_not_run_is_not_passed() {
        let mut gate = Gate::within(MINUTE);
        assert!(gate.step("good", || Ok(String::new())));
        gate.not_run("end to end", "no program");
        assert!(!gate.finish());
    }

    #[test]
    fn a_hanging_step_is_ended_and_failed() {
        let mut gate = Gate::within(Allowance { silence: Duration::from_millis(100), ..MINUTE });
        assert!(!gate.command("hang", &mut shell("sleep 1000")));
    }
}
