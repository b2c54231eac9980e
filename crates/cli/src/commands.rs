//! The subcommands.

mod announce;
mod aside;
pub mod bench;
pub mod cache;
pub mod completions;
pub mod disk;
pub mod doctor;
pub mod down;
pub mod fs;
pub mod guest;
mod image;
pub mod man;
pub mod metrics;
mod new_ssd;
pub mod pool;
pub mod run;
pub mod sim;
pub mod stat;
pub mod status;
pub mod tag;
mod transfer;
pub mod up;
mod upkeep;
pub mod wal;
mod watch;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use crate::outcome::Outcome;
use crate::output::shown;
use crate::pool_argument::{InPool, NoWords};

/// The words of a command that only reports about a whole pool.
#[derive(Args)]
pub struct WholePool {
    #[command(flatten)]
    pub at: InPool<NoWords>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Prints `report` as JSON, or by `show` for people. If the reader has exited, as in `| head`, this is not a failure.
pub fn print<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
    print_on(json, report, show).map(drop)
}

/// Prints like [`print`], but JSON in one line, so that a program that waits for the server can continue at once. If
/// the reader has exited, the server continues. If the write fails, the command fails, because the user could not find
/// the disks.
fn print_line<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
    let text = if json { serde_json::to_string(report)? + "\n" } else { shown(&show(report)) };
    write(&text).map(drop)
}

/// Prints like [`print`]. Returns true if there is still a reader.
fn print_on<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome<bool> {
    write(&text(json, report, show)?)
}

/// Returns `report` as JSON, or by `show` for people.
fn text<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome<String> {
    Ok(if json { serde_json::to_string_pretty(report)? + "\n" } else { shown(&show(report)) })
}

/// Writes `text` to standard output. Returns true if there is still a reader.
fn write(text: &str) -> Outcome<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("writing to standard output: {error}").into()),
    }
}
