//! The subcommands.

pub mod bench;
pub mod disk;
mod image;
pub mod pool;
pub mod tag;
mod transfer;
pub mod up;
mod upkeep;

use std::io::Write;

use serde::Serialize;

use crate::outcome::Outcome;

/// Prints `report` as JSON, or by `show` for people. A reader that has gone, as in `| head`, is no failure.
fn print<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
    let text = if json { serde_json::to_string_pretty(report)? + "\n" } else { show(report) };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
