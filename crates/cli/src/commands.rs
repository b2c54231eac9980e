//! The subcommands.

pub mod bench;
pub mod disk;
pub mod pool;
pub mod tag;
pub mod up;

use serde::Serialize;

use crate::outcome::Outcome;

/// Prints `report` as JSON, or by `show` for people.
fn print<T: Serialize>(json: bool, report: &T, show: impl FnOnce(&T)) -> Outcome {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?);
    } else {
        show(report);
    }
    Ok(())
}
