//! The subcommands.

mod announce;
mod aside;
pub mod bench;
pub mod disk;
pub mod down;
pub mod fs;
mod image;
pub mod pool;
pub mod run;
pub mod sim;
pub mod status;
pub mod tag;
mod transfer;
pub mod up;
mod upkeep;
pub mod wal;

use std::io::Write;

use clap::Args;
use serde::Serialize;

use crate::outcome::Outcome;
use crate::output::shown;
use crate::pool_argument::{InPool, NoWords};

#[derive(Args)]
pub struct List {
    #[command(flatten)]
    at: InPool<NoWords>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints `report` as JSON, or by `show` for people. A reader that has gone, as in `| head`, is no failure.
pub fn print<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
    print_on(json, report, show).map(drop)
}

/// As [`print`], but JSON in one line: whoever waits for something to be served can go on at once. That nobody reads it ends
/// no server; that it cannot be written does, for nobody would know where things are.
fn print_line<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome {
    let text = if json { serde_json::to_string(report)? + "\n" } else { shown(&show(report)) };
    write(&text).map(drop)
}

/// As [`print`], and whether there is still a reader.
fn print_on<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome<bool> {
    write(&text(json, report, show)?)
}

/// Returns `report` as JSON, or by `show` for people.
fn text<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T) -> String) -> Outcome<String> {
    Ok(if json { serde_json::to_string_pretty(report)? + "\n" } else { shown(&show(report)) })
}

/// Writes `text` to standard output; whether there is still a reader.
fn write(text: &str) -> Outcome<bool> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("writing to standard output: {error}").into()),
    }
}
