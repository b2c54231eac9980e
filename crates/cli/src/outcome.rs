//! The outcome of a command.

use std::fmt::Display;
use std::io::ErrorKind;
use std::process::ExitCode;

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The arguments make no sense: exit status 2.
    Usage(String),
    /// The operation failed: exit status 1.
    Failed(String),
    /// The command reported a failure on standard output as requested: exit status 1.
    Reported,
    /// Something in a restored pool stays closed, which was reported, and the user asked to end then: exit status 3.
    Closed,
    /// A child program failed with this status, which was reported.
    Program(u8),
}

/// The result of a command.
pub type Outcome<T = ()> = Result<T, Failure>;

impl<E: Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Failed(error.to_string())
    }
}

impl Failure {
    /// Returns the message of the failure.
    pub fn text(&self) -> &str {
        match self {
            Self::Usage(why) | Self::Failed(why) => why,
            Self::Reported => "it reported why",
            Self::Closed => "something in the restored pool stays closed",
            Self::Program(_) => "the program failed",
        }
    }
}

/// Returns the result of `done`, followed by the cleanup `cleared`. The first failure is the result, and a remark
/// reports the second.
pub fn and_then_cleared<T>(done: Outcome<T>, cleared: Outcome) -> Outcome<T> {
    match (done, cleared) {
        (Ok(it), cleared) => cleared.map(|()| it),
        (Err(first), Err(second)) => {
            remark!("clearing up failed too: {}", second.text());
            Err(first)
        }
        (Err(first), Ok(())) => Err(first),
    }
}

/// Prints the reason of a failure on standard error, and returns the exit status.
pub fn exit_code(outcome: Outcome) -> ExitCode {
    let (why, code) = match outcome {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Reported) => return ExitCode::from(1),
        Err(Failure::Closed) => return ExitCode::from(3),
        Err(Failure::Program(status)) => return ExitCode::from(status),
        Err(Failure::Failed(why)) => (why, 1),
        Err(Failure::Usage(why)) => (why, 2),
    };
    remark!("ferrite: {why}");
    ExitCode::from(code)
}

/// Prints clap's own output: help, version, or a refusal of the arguments. If the reader has exited, this is not a
/// failure.
pub fn print(told: &clap::Error) -> ExitCode {
    match told.print() {
        Err(why) if !told.use_stderr() && why.kind() != ErrorKind::BrokenPipe => {
            exit_code(Err(format!("writing to standard output: {why}").into()))
        }
        _ => ExitCode::from(told.exit_code() as u8),
    }
}

#[cfg(test)]
mod tests;
