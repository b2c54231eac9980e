//! Draining a killed database's log to files (`GiveBack`), with interruptions at every point.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::Path;

use ferrite_sqlite_log::Error;
use ferrite_sqlite_log::{GiveBack, GiveBackProgress};

use crate::shell::Shell;
use crate::{Place, open_pool};

/// Leaves 300 committed rows and, in delete mode, a transaction in the middle of its writing.
fn killed(place: &Place, mode: &str) {
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!("pragma journal_mode={mode}; pragma cache_size=2; create table t(n, b);"));
    shell.run("insert into t select value, randomblob(3000) from generate_series(1, 300);");
    shell.run("begin; update t set b = randomblob(2999);");
    shell.kill();
}

fn check(shell: &mut Shell) {
    assert_eq!(shell.ask("select count(*), min(length(b)) from t; pragma integrity_check;"), "300|3000\nok");
}

/// Begins a drain, and retries while a dropped one seems in use. A shell that another test starts inherits this
/// process's descriptors, and so the lock of a dropped drain, until its exec.
pub(crate) fn begin(place: &Place, database: &Path) -> GiveBack {
    let log_pool = open_pool(&place.path("pool")).unwrap();
    let begin = || GiveBack::begin(&log_pool, database.to_str().unwrap());
    let is_held =
        |begun: &Result<_, Error>| matches!(begun, Err(Error::Refused(why)) if why.contains("is in use: end"));
    let begun = std::iter::repeat_with(begin).take(100_000).find(|begun| !is_held(begun));
    begun.expect("a shell starts within 100,000 tries").unwrap()
}

pub(crate) fn finish(mut work: GiveBack) {
    while work.step().unwrap() != GiveBackProgress::Done {}
}

/// After a drain a plain SQLite recovers from the files, and this VFS opens the database again after that.
#[test]
fn a_drained_database_is_anybodys() {
    for mode in ["wal", "delete"] {
        let place = Place::new();
        killed(&place, mode);
        finish(begin(&place, &place.path("a.db")));
        assert_ne!(place.versions("a.db"), [3, 3]);
        let mut plain = Shell::plain(&place.path("a.db"));
        check(&mut plain);
        assert_eq!(plain.end(), "");
        check(&mut Shell::open(&place.uri("a.db")));
    }
}

/// WF4: a drain that is interrupted after any step is begun again and finished. Until a copy has its name, this VFS
/// continues with the data in the pool instead.
#[test]
fn wf4_an_interruption_after_any_step_leaves_one_truth() {
    for mode in ["wal", "delete"] {
        let mut steps = 0;
        for interrupted_at in 0.. {
            let place = Place::new();
            killed(&place, mode);
            let mut work = begin(&place, &place.path("a.db"));
            let is_over = (0..interrupted_at).any(|_| work.step().unwrap() == GiveBackProgress::Done);
            drop(work);
            if is_over {
                break;
            }
            steps += 1;
            let is_named = ["a.db-wal", "a.db-journal"].iter().any(|copy| place.path(copy).exists());
            if place.versions("a.db") == [3, 3] && !is_named {
                let mut shell = Shell::open(&place.uri("a.db"));
                check(&mut shell);
                shell.run("insert into t values(301, randomblob(3000));");
                assert_eq!(shell.ask("delete from t where n = 301; select count(*) from t;"), "300");
                shell.kill();
            }
            finish(begin(&place, &place.path("a.db")));
            check(&mut Shell::plain(&place.path("a.db")));
        }
        assert!(steps >= 5, "{steps} steps");
    }
}

/// WF4: a file with a log's name does not stay beside a database whose log is in the pool: a program that opens the
/// database later without the pool would take it for the log.
#[test]
fn wf4_what_is_beside_and_cannot_be_removed_is_told() {
    let place = Place::new();
    killed(&place, "wal");
    fs::create_dir(place.path("a.db-wal")).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("select count(*) from t;");
    let message = shell.end();
    assert!(message.contains("a.db-wal is not the database's log, which is in the pool"), "{message}");
    let message = begin(&place, &place.path("a.db")).step().unwrap_err().to_string();
    assert!(message.contains("a.db-wal: ") && message.contains("is still in the pool"), "{message}");
    fs::remove_dir(place.path("a.db-wal")).unwrap();
    check(&mut Shell::open(&place.uri("a.db")));
}

/// The files written beside a database belong to its users, and are not written through a link that another user made
/// there.
#[test]
fn the_files_beside_a_database_are_its_users() {
    let place = Place::new();
    killed(&place, "wal");
    let (database, log, precious) = (place.path("a.db"), place.path("a.db-wal"), place.path("precious"));
    fs::write(&precious, "precious").unwrap();
    symlink(&precious, place.path("a.db-wal.partial")).unwrap();
    symlink(&precious, &log).unwrap();
    fs::set_permissions(&database, Permissions::from_mode(0o640)).unwrap();
    if chown(&database, Some(4711), Some(4712)).is_err() {
        println!("skipped in part: only root gives files away");
    }
    finish(begin(&place, &database));
    let of = |path: &Path| fs::metadata(path).map(|found| (found.uid(), found.gid(), found.mode())).unwrap();
    assert_eq!(of(&log), of(&database));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    assert!(fs::symlink_metadata(&log).unwrap().is_file());
    check(&mut Shell::plain(&database));
}

#[test]
fn a_database_in_use_is_not_given_back() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("pragma journal_mode=wal; create table t(n);");
    let log_pool = open_pool(&place.path("pool")).unwrap();
    let message = GiveBack::begin(&log_pool, place.path("a.db").to_str().unwrap()).err().unwrap().to_string();
    assert!(message.contains(&format!("is in use by process {}", shell.pid())), "{message}");
    shell.kill();
}
