//! SQLite's own tests of transactions, journals, locks, failures and crashes, with this VFS as the default one.
//!
//! Their scripts see the logs as files (`testfixture/logs.tcl`). `own.txt` lists the remaining differences.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Place;
use crate::shell::library;

/// A file in SQLite's source.
struct Script<'a> {
    name: &'a str,
    tests_min: u32,
    /// Names of its tests that examine behaviour which differs here.
    others: Vec<&'a str>,
}

/// Returns the scripts of every run, and the scripts that take minutes.
fn scripts() -> [Vec<Script<'static>>; 2] {
    let (usual, long) = include_str!("own.txt").split_once("\nlong\n").expect("two parts");
    [usual, long]
        .map(|part| part.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(script).collect())
}

fn script(line: &'static str) -> Script<'static> {
    let mut words = line.split(' ');
    let (name, tests_min) = (words.next().expect("a name"), words.next().expect("a number").parse().expect("a number"));
    Script { name, tests_min, others: words.skip(1).collect() }
}

/// Returns the folder with SQLite's source and its test program, if `cargo xtask test` has built it.
fn source() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
    let source = target.join("programs/sqlite/source");
    if !source.join("testfixture").is_file() {
        println!("skipped: bindings/sqlite/tests/testfixture/build.sh has built nothing in target/programs/sqlite");
        return None;
    }
    Some(source)
}

/// Returns the output of the test program for `script` in `place`.
fn run(source: &Path, place: &Place, script: &Path) -> String {
    let mut command = Command::new(source.join("testfixture"));
    command.arg(script).current_dir(place.path("")).env("FERRITE_POOL", place.path("pool"));
    let output = command.env("FERRITE_VFS", library().with_extension("so")).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Runs `script` completely; only the tests with known differences may fail.
fn pass(source: &Path, script: &Script<'_>) {
    let place = Place::of("/dev/shm", 128 << 20);
    let said = run(source, &place, &source.join(format!("test/{}.test", script.name)));
    let ended = said.lines().find_map(|line| line.split_once(" errors out of "));
    let tests: Option<u32> = ended.and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    let failed = said.lines().find_map(|line| line.strip_prefix("!Failures on these tests: ")).unwrap_or("");
    let failed: Vec<&str> =
        failed.split(' ').filter(|name| !name.is_empty() && !script.others.contains(name)).collect();
    let wrong = || said.lines().filter(|line| line.starts_with('!')).take(20).collect::<Vec<_>>().join("\n");
    let name = script.name;
    assert!(tests.is_some_and(|tests| tests >= script.tests_min), "{name}: {ended:?}\n{}", wrong());
    assert!(failed.is_empty(), "{name}: {failed:?}\n{}", wrong());
}

/// Runs every second script from `first` on, so that two processors have work.
fn pass_half(first: usize) {
    let Some(source) = source() else { return };
    scripts()[0].iter().skip(first).step_by(2).for_each(|script| pass(&source, script));
}

#[test]
fn sqlites_own_tests_pass_with_this_vfs() {
    pass_half(0);
}

#[test]
fn sqlites_other_own_tests_pass_with_this_vfs() {
    pass_half(1);
}

#[test]
fn sqlites_long_tests_pass_with_this_vfs() {
    let Some(source) = source().filter(|_| std::env::var_os("FERRITE_ROUNDS").is_some()) else {
        return println!("skipped: minutes; with FERRITE_ROUNDS set they run");
    };
    scripts()[1].iter().for_each(|script| pass(&source, script));
}

/// If another VFS were the default one, the tests above would prove nothing.
#[test]
fn canary_sqlites_test_program_keeps_no_log_beside_the_database() {
    let Some(source) = source() else { return };
    let place = Place::new();
    let script = place.path("look.tcl");
    let text = "sqlite3 db a.db\ndb eval {pragma journal_mode=wal; create table t(n); insert into t values(7)}\n\
                puts \"there: [file exists a.db-wal], [db eval {select n from t}]\"\n";
    std::fs::write(&script, text).unwrap();
    assert!(run(&source, &place, &script).contains("there: 0, 7"));
    // The database was not closed, so a plain SQLite cannot open it.
    std::fs::remove_file(place.path("a.db")).unwrap();
    let plain = Command::new(source.join("testfixture")).arg(&script).current_dir(place.path("")).output().unwrap();
    assert!(String::from_utf8_lossy(&plain.stdout).contains("there: 1, 7"), "{plain:?}");
}
