//! Scripts of SQLite's shell, and shells that fail.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::*;

fn opened() -> OpenedDatabase {
    OpenedDatabase { opening: ".open a.db\n".into(), synchronous: "full" }
}

/// What stands before the first mark or behind the second is not timed.
#[test]
fn a_script_has_its_transactions_between_the_marks() {
    let script = script(&opened(), 7);
    let (before, rest) = script.split_once(".system echo go\n").expect("a mark");
    let (timed, after) = rest.split_once(".system echo done\n").expect("another mark");
    assert!(before.starts_with(".open a.db\npragma journal_mode=wal;\npragma synchronous=full;\n"), "{before}");
    let count = |verb: &str| timed.lines().filter(|line| line.starts_with(verb)).count();
    assert_eq!((count("insert "), count("update "), count("delete "), timed.lines().count()), (3, 2, 2, 7));
    assert_eq!(after, "");
}

#[test]
fn a_shell_that_does_not_run_all_is_an_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let shell = folder.path().join("sqlite3");
    let run_by = |text: &str| {
        fs::write(&shell, format!("#!/bin/sh\ncat > /dev/null\n{text}\n")).expect("written");
        fs::set_permissions(&shell, fs::Permissions::from_mode(0o755)).expect("it can be run");
        run(&shell, &opened(), 10).map_err(|why| why.to_string())
    };
    assert!(run_by("echo go; sleep 0.01; echo wal; echo done").expect("both marks") > 0.0);
    for text in ["echo go; echo done; exit 1", "echo go", "exit 0"] {
        assert_eq!(run_by(text), Err("sqlite3: it did not run all transactions".into()), "{text}");
    }
}

#[test]
fn a_shell_that_is_missing_is_named() {
    let why = run(Path::new("/no/such/sqlite3"), &opened(), 1).expect_err("it is missing").to_string();
    assert!(why.starts_with("running sqlite3: "), "{why}");
}
