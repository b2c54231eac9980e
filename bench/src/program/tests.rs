//! Programs of the shell.

use super::*;

#[test]
fn a_program_that_fails_is_an_error_with_what_it_said() {
    assert_eq!(output(Command::new("sh").args(["-c", "echo yes"])).expect("it runs"), "yes\n");
    let why = run(Command::new("sh").args(["-c", "echo because >&2; exit 3"])).expect_err("it fails").to_string();
    assert!(why.contains("because") && why.contains('3'), "{why}");
    assert!(shell(&[], "false; true").is_err());
    shell(&[("home", Path::new("/a b"))], "test \"$home\" = '/a b'").expect("a script has its variables");
}

#[test]
fn programs_are_found_or_not() {
    assert!(find("sh").is_some() && find("no such program").is_none());
}

#[test]
fn a_program_that_is_missing_is_named() {
    let why = run(&mut command("no such program")).expect_err("it is missing").to_string();
    assert!(why.starts_with("running no such program: "), "{why}");
    assert_eq!(strange("pgbench", "tps = none").to_string(), "pgbench: its output is not understood: tps = none");
}
