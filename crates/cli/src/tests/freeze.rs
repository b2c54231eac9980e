//! Tests of the command line that scripts rely on: every command, option, default, position and exit status is compared
//! with testdata/freeze. Help texts may change freely. Run with `FERRITE_FREEZE=write` to accept an intended change.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{Arg, ArgAction, Command, CommandFactory};

use crate::outcome::{Failure, exit_code};
use crate::{Arguments, help};

/// Panics with the first different line unless testdata/freeze/`name` holds `lines`. Rewrites the file if the user asks
/// for it.
#[track_caller]
fn assert_frozen(name: &str, lines: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/freeze").join(name);
    if std::env::var_os("FERRITE_FREEZE").is_some_and(|value| value == "write") {
        std::fs::write(&path, lines).expect("the frozen lines are written");
    }
    let frozen = std::fs::read_to_string(&path).expect("the frozen lines are read");
    let lost: Vec<&str> = frozen.lines().filter(|line| !lines.lines().any(|now| now == *line)).collect();
    let new: Vec<&str> = lines.lines().filter(|line| !frozen.lines().any(|then| then == *line)).collect();
    assert!(frozen == lines, "testdata/freeze/{name} differs: lost {lost:#?}, new {new:#?}");
}

/// Writes one line for `command`, one for each of its arguments, and the same for its subcommands.
fn write_command(out: &mut String, path: &str, command: &Command) {
    let hidden = if command.is_hide_set() { " hidden" } else { "" };
    let aliases: String = command.get_all_aliases().map(|alias| format!(" alias={alias}")).collect();
    let needs = if command.is_subcommand_required_set() { " needs-subcommand" } else { "" };
    writeln!(out, "{path}{hidden}{aliases}{needs}").expect("written to a string");
    let mut arguments: Vec<String> = command.get_arguments().map(|argument| line_of(command, argument)).collect();
    arguments.sort();
    for argument in arguments {
        writeln!(out, "{path} {argument}").expect("written to a string");
    }
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        write_command(out, &format!("{path} {}", below.get_name()), below);
    }
}

/// Returns the name of `argument` of `command`, with its position, values and default.
fn line_of(command: &Command, argument: &Arg) -> String {
    let mut line = match (argument.get_index(), argument.get_long()) {
        (Some(position), _) => format!("[{position}]"),
        (None, Some(long)) => format!("--{long}"),
        (None, None) => "-".into(),
    };
    let shorts = argument.get_short().into_iter().chain(argument.get_all_short_aliases().unwrap_or_default());
    line.extend(shorts.map(|short| format!(" -{short}")));
    line.extend(argument.get_all_aliases().unwrap_or_default().iter().map(|alias| format!(" alias={alias}")));
    if argument.get_action().takes_values() {
        let names = argument.get_value_names().unwrap_or_default();
        line.extend(names.iter().map(|name| format!(" {name}")));
        line.extend(argument.get_num_args().filter(|count| *count != 1.into()).map(|count| format!(" values={count}")));
        let possible: Vec<String> =
            argument.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        line += &if possible.is_empty() { String::new() } else { format!(" one-of={}", possible.join(",")) };
    }
    let flags = [
        (argument.is_required_set(), "required"),
        (argument.is_global_set(), "global"),
        (argument.is_hide_set(), "hidden"),
        (argument.is_last_set(), "last"),
        (argument.is_trailing_var_arg_set(), "trailing"),
        (argument.is_allow_hyphen_values_set(), "hyphens"),
        (matches!(argument.get_action(), ArgAction::Append | ArgAction::Count), "repeatable"),
    ];
    line.extend(flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| format!(" {word}")));
    let conflicts = command.get_arg_conflicts_with(argument);
    let mut conflicts: Vec<String> = conflicts.iter().map(ToString::to_string).collect();
    conflicts.sort();
    line.extend(conflicts.iter().map(|other| format!(" not-with={}", other.replace(' ', "_"))));
    line + &default_of(argument)
}

/// Returns the default of `argument`: the declared one, or the first word of the one that its help states.
fn default_of(argument: &Arg) -> String {
    let declared = argument.get_default_values();
    if !declared.is_empty() && argument.get_action().takes_values() {
        let values: Vec<_> = declared.iter().map(|value| value.to_string_lossy()).collect();
        return format!(" default={}", values.join(","));
    }
    let help = argument.get_long_help().or(argument.get_help()).map(ToString::to_string).unwrap_or_default();
    let said = help.split_once("[default: ").and_then(|(_, rest)| rest.split_once(']'));
    let word = said.and_then(|(default, _)| default.split([' ', ',', '\n']).next());
    word.map(|word| format!(" says-default={word}")).unwrap_or_default()
}

#[test]
fn commands_keep_their_options_defaults_and_positions() {
    let mut program = help::prepared(Arguments::command());
    program.build();
    let mut lines = String::new();
    write_command(&mut lines, "ferrite", &program);
    assert_frozen("commands.txt", &lines);
}

#[test]
fn outcomes_keep_their_exit_statuses() {
    let status = |outcome| format!("{:?}", exit_code(outcome));
    let is = |code: u8| format!("{:?}", ExitCode::from(code));
    assert_eq!(status(Ok(())), is(0));
    assert_eq!(status(Err(Failure::Failed("failed".into()))), is(1));
    assert_eq!(status(Err(Failure::Reported)), is(1));
    assert_eq!(status(Err(Failure::Usage("usage".into()))), is(2));
    assert_eq!(status(Err(Failure::Program(77))), is(77));
}
