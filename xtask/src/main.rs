//! The project's commands: `cargo xtask --help` explains them.

mod arguments;
mod commands;
mod gate;
mod kernel;
mod manifest;
mod package;
mod process;
mod programs;
mod project;
mod project_rules;
mod services;
mod source;
mod test_output;
mod tidy;
mod tree;

use std::io::Write;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use arguments::CommandLine;
use project::Project;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let new_seed = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_secs());
    let project = Project::here();
    let went_well = match arguments::parse(&words, new_seed) {
        Ok(CommandLine::Help) => {
            show(arguments::HELP);
            true
        }
        Ok(CommandLine::Test { quick }) => project.test(quick),
        Ok(CommandLine::Tidy) => report(&project.tidy()),
        Ok(CommandLine::Prose(folder)) => report(&project.prose(&folder)),
        Ok(CommandLine::Ledger) => report(&project.renew_ledger()),
        Ok(CommandLine::Soak(runs)) => project.soak(&runs),
        Ok(CommandLine::Package(kinds)) => report(&project.package(&kinds)),
        Ok(CommandLine::Figures(names)) => project.figures(&names),
        Err(what) => {
            eprintln!("{what}\n`cargo xtask --help` lists what there is");
            return ExitCode::from(2);
        }
    };
    if went_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints the text of `found`. Returns true if it is `Ok`.
fn report(found: &Result<String, String>) -> bool {
    let (Ok(text) | Err(text)) = found;
    show(text);
    found.is_ok()
}

/// Prints `text`. A reader that has gone, as in `| head`, is not an error.
fn show(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}
