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
        let mut script = Vec::new();
        generate(shell, &mut shown(&crate::program(&registry())), "ferrite", &mut script);
        super::write(&String::from_utf8(script)?).map(drop)
    }
}

/// Returns `program` without its hidden commands, which the scripts would offer.
fn shown(program: &Command) -> Command {
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("ferrite")
        .version(env!("CARGO_PKG_VERSION"))
        .args(program.get_arguments().cloned())
        .subcommands(commands.cloned())
}
