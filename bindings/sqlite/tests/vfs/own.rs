//! SQLite's own tests of transactions, journals, locks and crashes, with this VFS as the default one.
//!
//! Those that look at the log as a file beside the database, copy it, or replace system calls of the default VFS have
//! nothing to look at here, and are not among these.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Place;
use crate::shell::library;

/// Files in SQLite's source, and how many tests each has at least.
const TESTS: [(&str, u32); 24] = [
    ("trans", 300),
    ("trans2", 400),
    ("trans3", 9),
    ("savepoint", 100),
    ("savepoint2", 100),
    ("walcrash", 2900),
    ("walbig", 5),
    ("walshared", 5),
    ("wal8", 7),
    ("crash2", 80),
    ("crash6", 100),
    ("rollback2", 100),
    ("jrnlmode3", 100),
    ("pager2", 2000),
    ("attach2", 60),
    ("vacuum", 40),
    ("incrvacuum", 150),
    ("lock", 60),
    ("lock2", 10),
    ("lock5", 10),
    ("exclusive2", 20),
    ("memjournal", 5),
    ("shared", 200),
    ("mmap1", 80),
];

/// The folder with SQLite's source and its test program, where `cargo xtask test` has built it.
fn source() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("a target folder");
    let source = target.join("programs/sqlite/source");
    if !source.join("testfixture").is_file() {
        println!("skipped: bindings/sqlite/tests/testfixture.sh has built nothing in target/programs/sqlite");
        return None;
    }
    Some(source)
}

/// What the test program says when it runs `script` in `place`.
fn run(source: &Path, place: &Place, script: &Path) -> String {
    let mut command = Command::new(source.join("testfixture"));
    command.arg(script).current_dir(place.path("")).env("FERRITE_POOL", place.path("pool"));
    let output = command.env("FERRITE_VFS", library().with_extension("so")).output().expect("it starts");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn sqlites_own_tests_pass_with_this_vfs() {
    let Some(source) = source() else { return };
    for (name, tests_min) in TESTS {
        let place = Place::of("/dev/shm", 128 << 20);
        let said = run(&source, &place, &source.join(format!("test/{name}.test")));
        let line = said.lines().find_map(|line| line.strip_prefix("0 errors out of "));
        let tests: Option<u32> = line.and_then(|line| line.split(' ').next()?.parse().ok());
        let wrong = || said.lines().filter(|line| line.starts_with('!')).take(20).collect::<Vec<_>>().join("\n");
        assert!(tests.is_some_and(|tests| tests >= tests_min), "{name}: {line:?}\n{}", wrong());
    }
}

/// Were another VFS the default one, the tests above would say nothing.
#[test]
fn canary_sqlites_test_program_keeps_no_log_beside_the_database() {
    let Some(source) = source() else { return };
    let place = Place::new();
    let script = place.path("look.tcl");
    let text = "sqlite3 db a.db\ndb eval {pragma journal_mode=wal; create table t(n); insert into t values(7)}\n\
                puts \"there: [file exists a.db-wal], [db eval {select n from t}]\"\n";
    std::fs::write(&script, text).unwrap();
    assert!(run(&source, &place, &script).contains("there: 0, 7"));
    // That one was not closed, and is not for a plain SQLite.
    std::fs::remove_file(place.path("a.db")).unwrap();
    let plain = Command::new(source.join("testfixture")).arg(&script).current_dir(place.path("")).output().unwrap();
    assert!(String::from_utf8_lossy(&plain.stdout).contains("there: 1, 7"), "{plain:?}");
}
