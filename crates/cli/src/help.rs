//! The common rules of all commands for `--help` and for reading arguments.

use clap::{Arg, ArgMatches, Command};

use crate::pool_argument;

mod examples;
#[cfg(test)]
mod tests;

/// The widest line of help, in columns, however wide the terminal is.
const COLUMNS_MAX: usize = 100;

/// The longest help of an option that `-h` shows whole, in bytes.
const LINE_MAX: usize = 72;

/// The shortest clause that says enough, in bytes.
const CLAUSE_MIN: usize = 20;

/// The heading of options that `-h` shows beside those without a heading.
const SHOWN_HEADING: &str = "Where it is reached";

/// Returns the whole tree of commands, ready to read a command line.
pub fn prepared(program: Command) -> Command {
    prepared_below(program.max_term_width(COLUMNS_MAX), "ferrite")
}

/// Prepares `command` and its subcommands. `path` is the words by which `command` is called.
fn prepared_below(command: Command, path: &str) -> Command {
    let usage = pool_argument::usage(path, &command);
    // A negative number behind an option is the option's value: the option says which numbers it takes.
    let takes = |arg: &Arg| !arg.is_positional() && arg.get_action().takes_values();
    let command = command.mut_args(|arg| if takes(&arg) { arg.allow_negative_numbers(true) } else { arg });
    // Options under a heading of their own are rare: `-h` omits them, and `--help` shows them.
    let is_rare = |arg: &Arg| arg.get_help_heading().is_some_and(|heading| heading != SHOWN_HEADING);
    let has_rare = command.get_arguments().any(is_rare);
    let command = command.mut_args(|arg| shortened(if is_rare(&arg) { arg.hide_short_help(true) } else { arg }));
    let command = with_examples(command, path, has_rare);
    let command = match usage {
        Some(usage) => command.override_usage(usage),
        None => command,
    };
    command.mut_subcommands(|below| {
        let path = format!("{path} {}", below.get_name());
        prepared_below(below, &path)
    })
}

/// Reduces the help of `arg` in `-h` to its first clause, if the help is longer than a line.
fn shortened(arg: Arg) -> Arg {
    let Some(help) = arg.get_help().map(ToString::to_string).filter(|help| help.len() > LINE_MAX) else { return arg };
    let clause = first_clause(&help);
    let long = arg.get_long_help().map_or_else(|| help.clone(), ToString::to_string);
    arg.help(clause).long_help(long)
}

/// Returns the first clause of `help`, with the default at its end if that is short.
fn first_clause(help: &str) -> String {
    let end = |mark| help.match_indices(mark).map(|(at, _)| at).find(|at| *at >= CLAUSE_MIN);
    let ends = ["; ", ": ", ". ", " (", " ["].into_iter().filter_map(end);
    let clause = &help[..ends.min().unwrap_or(help.len())];
    // A cut within the brackets of a default removes the whole bracket.
    let clause = clause.split_once(" [").map_or(clause, |(clause, _)| clause);
    let default = help.rfind(" [default: ").map_or("", |at| &help[at..]);
    let default = if clause.len() + default.len() <= LINE_MAX && default.ends_with(']') { default } else { "" };
    format!("{clause}{default}")
}

/// Adds the examples of `command` to the end of its `--help`. If it `has_more`, `-h` refers to `--help`.
fn with_examples(command: Command, path: &str, has_more: bool) -> Command {
    let long = command.get_after_long_help().or(command.get_after_help()).map(|text| format!("{text}\n\n"));
    let after = command.get_after_help().map(|text| format!("{text}\n\n")).unwrap_or_default();
    let known = examples::ALL.iter().find(|(name, _)| *name == path);
    let lines: String = known.iter().flat_map(|(_, lines)| *lines).map(|line| format!("\n  {line}")).collect();
    let command = if has_more {
        command.after_help(format!("{after}More options, such as --guard and --pace: {path} --help"))
    } else {
        command
    };
    if lines.is_empty() {
        command
    } else {
        command.after_long_help(format!("{}Examples:{lines}", long.unwrap_or_default()))
    }
}

/// Returns the names of the commands in `found`, the outermost first.
pub fn path(found: &ArgMatches) -> Vec<String> {
    let below = |(name, below): (&str, &ArgMatches)| {
        let mut all = vec![name.to_owned()];
        all.extend(path(below));
        all
    };
    found.subcommand().map(below).unwrap_or_default()
}

/// Returns the command at `path` below `program`.
pub fn found_mut<'a>(program: &'a mut Command, path: &[String]) -> &'a mut Command {
    match path {
        [name, below @ ..] if program.find_subcommand(name).is_some() => {
            found_mut(program.find_subcommand_mut(name).expect("found above"), below)
        }
        _ => program,
    }
}
