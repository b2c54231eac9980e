//! `ferrite completions`.

use clap::{Args, Command, ValueEnum};
use clap_complete::aot::{Shell, generate};
use ferrite_daemon::registry;

use crate::outcome::Outcome;

/// Print a script that completes the commands and options of `ferrite` in a shell
#[derive(Args)]
pub struct Completions {
    /// The shell that reads the script
    shell: CompletedShell,
}

/// The shells that have completions.
#[derive(Clone, Copy, ValueEnum)]
enum CompletedShell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    /// Prints the script.
    pub fn run(self) -> Outcome {
        let shell = match self.shell {
            CompletedShell::Bash => Shell::Bash,
            CompletedShell::Zsh => Shell::Zsh,
            CompletedShell::Fish => Shell::Fish,
        };
        super::write(&script(shell)?).map(drop)
    }
}

/// Returns the script for `shell`.
fn script(shell: Shell) -> Outcome<String> {
    let mut script = Vec::new();
    generate(shell, &mut shown(&crate::program(&registry())), "ferrite", &mut script);
    Ok(String::from_utf8(script)?)
}

/// Returns `program` without its hidden commands, which the scripts would offer.
fn shown(program: &Command) -> Command {
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("ferrite")
        .version(env!("CARGO_PKG_VERSION"))
        .args(program.get_arguments().cloned())
        .subcommands(commands.cloned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_offer_the_shown_commands_alone() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let script = script(shell).expect("a script");
            assert!(script.contains("doctor") && script.contains("defrag"), "{shell}");
            assert!(!script.contains(ferrite_bench::worker::SUBCOMMAND), "{shell}");
        }
    }
}
