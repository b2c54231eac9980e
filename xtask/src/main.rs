//! The project's commands: `cargo xtask --help` explains them.

mod arguments;
mod commands;
mod gate;
mod kernel;
mod manifest;
mod process;
mod programs;
mod project;
mod ratchet;
mod rules;
mod runs;
mod source;
mod tally;
mod tidy;
mod tree;

use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use arguments::Ask;
use project::Project;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let new_seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let project = Project::here();
    let went_well = match arguments::parse(&words, new_seed) {
        Ok(Ask::Help) => {
            show(arguments::HELP);
            true
        }
        Ok(Ask::Test { quick }) => project.test(quick),
        Ok(Ask::Tidy) => report(&project.tidy()),
        Ok(Ask::Prose(folder)) => report(&project.prose(&folder)),
        Ok(Ask::Ledger) => report(&project.renew_ledger()),
        Ok(Ask::Soak(runs)) => project.soak(&runs),
        Ok(Ask::Figures(names)) => project.figures(&names),
        Err(what) => {
            eprintln!("{what}\n`cargo xtask --help` lists what there is");
            return ExitCode::from(2);
        }
    };
    if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints `found` and returns whether it is good.
fn report(found: &Result<String, String>) -> bool {
    let (Ok(text) | Err(text)) = found;
    show(text);
    found.is_ok()
}

/// Prints `text`; a reader that wants no more of it (`| head`) is no error.
fn show(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
