//! Tests of the whole tree of commands: their help, their examples, and their pools.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgMatches, CommandFactory};

use super::*;
use crate::Arguments;

/// The number of lines that a screen shows.
const LINES_MAX: usize = 40;

fn program() -> Command {
    let mut program = prepared(Arguments::command()).term_width(COLUMNS_MAX);
    program.build();
    program
}

/// Calls `look` with each visible command and the words that call it.
fn walk(command: &Command, path: &str, look: &mut dyn FnMut(&str, &Command)) {
    look(path, command);
    for below in command.get_subcommands().filter(|it| !it.is_hide_set() && it.get_name() != "help") {
        walk(below, &format!("{path} {}", below.get_name()), look);
    }
}

fn all() -> Vec<(String, Command)> {
    let mut all = Vec::new();
    walk(&program(), "ferrite", &mut |path, command| all.push((path.to_owned(), command.clone())));
    all
}

/// Splits a line into words like a shell, up to the end of the command.
fn words(line: &str) -> Vec<&str> {
    let is_own = |word: &&str| !word.starts_with(['#', '|', '<', '>', '&']);
    line.split_whitespace().take_while(is_own).collect()
}

#[test]
fn each_command_has_examples_that_are_understood() {
    let all = all();
    for (path, command) in &all {
        let known = examples::ALL.iter().find(|(name, _)| name == path);
        let (_, lines) = known.unwrap_or_else(|| panic!("{path} has no examples"));
        let help = command.clone().render_long_help().to_string();
        assert!(help.contains("\nExamples:\n"), "{path}: {help}");
        for line in *lines {
            assert!(help.contains(line), "{path}: {line}: {help}");
            assert!(line.chars().count() <= COLUMNS_MAX - 2, "too wide: {line}");
            let parsed = prepared(Arguments::command()).try_get_matches_from(words(line));
            assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("refused"));
        }
        assert!(lines.iter().any(|line| line.starts_with(path)), "{path}: an example of its own");
    }
    for (name, _) in examples::ALL {
        assert!(all.iter().any(|(path, _)| path == name), "there is no command {name}");
    }
}

#[test]
fn short_help_fits_a_screen() {
    for (path, mut command) in all() {
        let help = command.render_help().to_string();
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(COLUMNS_MAX), "{path} -h has {widest:?} columns:\n{help}");
        let lines = help.lines().count();
        assert!(lines <= LINES_MAX, "{path} -h has {lines} lines:\n{help}");
    }
}

#[test]
fn short_help_is_the_first_clause_and_a_short_default() {
    let message = [
        (
            "When written data is durable: `sync` when the write returns [default: sync]",
            "When written data is durable [default: sync]",
        ),
        ("Let others in, as allowed (without root: needs a file)", "Let others in, as allowed"),
        ("An address, such as 127.0.0.1:10809; repeat it", "An address, such as 127.0.0.1:10809"),
        ("The pool's file [default: $FERRITE_POOL, else the one in the data directory of the user]", "The pool's file"),
        ("Print JSON", "Print JSON"),
    ];
    for (help, short) in message {
        assert_eq!(first_clause(help), short);
    }
}

/// Options that only `--help` shows stand under a heading, and `-h` mentions that there are more.
#[test]
fn emulation_and_write_schemes_are_for_long_help() {
    for path in ["ferrite up", "ferrite disk serve", "ferrite disk attach"] {
        let (_, mut command) = all().into_iter().find(|(name, _)| name == path).expect("a command");
        let (short, long) = (command.render_help().to_string(), command.render_long_help().to_string());
        for option in ["--scheme <", "--pace <", "--rdlat <", "--buffers <"] {
            assert!(!short.contains(option) && long.contains(option), "{path}: {option}");
        }
        assert!(short.contains(&format!("{path} --help")), "{short}");
    }
}

/// The command whose last words are a program's, so that its pool has no default.
const GUEST_RUN: &str = "ferrite guest run";

/// Commands that use no pool, or whose first word is not the pool.
const OTHERS: [&str; 15] = [
    "ferrite up",
    "ferrite status",
    "ferrite pool create",
    "ferrite pool restore",
    "ferrite disk copy",
    "ferrite disk export",
    "ferrite run",
    GUEST_RUN,
    "ferrite bench",
    "ferrite sim llc",
    "ferrite sim ftl",
    "ferrite sim convert",
    "ferrite doctor",
    "ferrite completions",
    "ferrite man",
];

/// Returns the matches of the innermost command.
fn innermost(found: &ArgMatches) -> &ArgMatches {
    found.subcommand().map_or(found, |(_, below)| innermost(below))
}

/// Returns the pool and the words after it in `line`, or `None` if the command refuses the line.
fn understood(command: &Command, line: &[String]) -> Option<(Option<PathBuf>, Vec<OsString>)> {
    let found = prepared(Arguments::command()).try_get_matches_from(line).ok()?;
    Some(pool_argument::split(innermost(&found), command))
}

/// Each command takes its pool as the first word, by `--pool`, or none at all.
#[test]
fn each_command_has_its_pool_by_a_word_or_by_an_option_or_by_default() {
    let leaves = all().into_iter().filter(|(_, command)| command.get_subcommands().next().is_none());
    for (path, command) in leaves.filter(|(path, _)| !OTHERS.contains(&&**path)) {
        let required = command.get_positionals().filter(|arg| arg.is_required_set()).count();
        let options = command.get_opts().filter(|arg| arg.is_required_set());
        let options: Vec<String> =
            options.flat_map(|arg| [format!("--{}", arg.get_long().unwrap()), "1M".into()]).collect();
        let behind: Vec<String> = (0..required).map(|nth| format!("word{nth}")).collect();
        let as_words: Vec<OsString> = behind.iter().map(OsString::from).collect();
        let line = |before: &[&str], behind: &[String]| -> Vec<String> {
            let words = path.split(' ').chain(before.iter().copied()).map(str::to_owned);
            words.chain(behind.iter().cloned()).chain(options.clone()).collect()
        };
        let pool = Some(PathBuf::from("/a/pool"));
        let by_word = understood(&command, &line(&["/a/pool"], &behind));
        assert_eq!(by_word, Some((pool.clone(), as_words.clone())), "{path}: by a word");
        let by_option = understood(&command, &line(&["--pool", "/a/pool"], &behind));
        assert_eq!(by_option, Some((pool, as_words.clone())), "{path}: by --pool");
        assert_eq!(understood(&command, &line(&[], &behind)), Some((None, as_words)), "{path}: by default");
        if required > 0 {
            assert_eq!(understood(&command, &line(&[], &behind[1..])), None, "{path}: a word is missing");
        }
        let usage = command.clone().render_usage().to_string();
        assert!(usage.contains("[POOL]") || usage.contains("<POOL>"), "{path}: {usage}");
    }
}

/// Commands that make or destroy data have no default pool. An SSD of a tier loses nothing when it is removed.
#[test]
fn what_makes_or_destroys_needs_its_pool_named() {
    for (path, mut command) in all() {
        let usage = command.render_usage().to_string();
        let verb = path.rsplit(' ').next();
        let is_lossless = path.ends_with("fs tier remove");
        let is_named = matches!(verb, Some("create" | "restore" | "import" | "remove" | "forget")) && !is_lossless;
        if is_named || path == GUEST_RUN {
            assert!(usage.contains("<POOL>") && !usage.contains("[POOL]"), "{path}: {usage}");
        } else {
            assert!(!usage.contains("<POOL>"), "{path}: {usage}");
        }
    }
}

#[test]
fn one_word_too_many_is_refused_as_that() {
    for line in ["ferrite disk stat --pool p d0 more", "ferrite pool info --pool p q", "ferrite pool info p q"] {
        let mut command = prepared(Arguments::command());
        let found = command.try_get_matches_from_mut(line.split(' '));
        let refused = found.and_then(|mut found| clap::FromArgMatches::from_arg_matches_mut(&mut found));
        let why = refused.map(|_: Arguments| ()).expect_err(line).to_string();
        assert!(why.contains("unexpected argument"), "{line}: {why}");
    }
}
