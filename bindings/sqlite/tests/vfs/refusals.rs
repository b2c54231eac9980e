//! Refused operations: they give a helpful message, and harm no data.

use std::fs;

use ferrite_sqlite_log::forget;

use crate::shell::Shell;
use crate::{Place, open_pool};

/// Leaves a database with committed transactions that are only in the pool.
fn killed(place: &Place) {
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("pragma journal_mode=wal; create table t(n); insert into t values(1),(2);");
    shell.kill();
}

/// Returns the errors of opening `uri` and reading from it.
fn complaint(uri: &str) -> String {
    let mut shell = Shell::open(uri);
    shell.run("select count(*) from t;");
    shell.end()
}

#[test]
fn a_plain_sqlite_refuses_what_is_not_whole_without_the_pool() {
    let place = Place::new();
    killed(&place);
    let mut plain = Shell::plain(&place.path("a.db"));
    plain.run("select * from t;");
    assert!(plain.end().contains("file is not a database"));
    assert_eq!(Shell::open(&place.uri("a.db")).ask("select count(*) from t;"), "2");
}

/// WF9: a renamed database finds its log, and a copied one is refused.
#[test]
fn wf9_a_renamed_database_is_opened_and_a_copied_one_is_refused() {
    let place = Place::new();
    killed(&place);
    fs::copy(place.path("a.db"), place.path("copy.db")).unwrap();
    let message = complaint(&place.uri("copy.db"));
    let (original, before) = (place.path("a.db"), fs::read(place.path("copy.db")).unwrap());
    let helps = format!("is a copy of {0}, whose log is in this pool: open {0}", original.display());
    assert!(message.contains(&helps), "{message}");
    assert!(fs::read(place.path("copy.db")).unwrap() == before, "what is refused is not written");
    fs::rename(&original, place.path("b.db")).unwrap();
    assert_eq!(Shell::open(&place.uri("b.db")).ask("select count(*) from t;"), "2");
    killed_again(&place, "b.db");
    fs::rename(place.path("copy.db"), &original).unwrap();
    let message = complaint(&place.uri("a.db"));
    assert!(message.contains("is a copy of"), "{message}");
    fs::rename(place.path("b.db"), &original).unwrap();
    assert_eq!(Shell::open(&place.uri("a.db")).ask("select count(*) from t;"), "3");
}

/// A copy at the path of its original is refused, because it is another file.
#[test]
fn wf9_a_copy_in_the_place_of_the_original_is_refused() {
    let place = Place::new();
    killed(&place);
    fs::copy(place.path("a.db"), place.path("copy.db")).unwrap();
    fs::rename(place.path("a.db"), place.path("b.db")).unwrap();
    fs::rename(place.path("copy.db"), place.path("a.db")).unwrap();
    let message = complaint(&place.uri("a.db"));
    assert!(message.contains("is not the file whose log is in this pool"), "{message}");
    assert_eq!(Shell::open(&place.uri("b.db")).ask("select count(*) from t;"), "2");
}

fn killed_again(place: &Place, name: &str) {
    let mut shell = Shell::open(&place.uri(name));
    shell.run("insert into t values(3);");
    shell.kill();
}

#[test]
fn another_pool_is_refused_also_where_both_are_open_at_once() {
    let (place, other) = (Place::new(), Place::new());
    let elsewhere = format!("file:{}?vfs=ferrite&pool={}", place.path("a.db").display(), other.path("pool").display());
    Shell::open(&place.uri("a.db")).run("create table t(n);");
    let mut waiting = Shell::open(&elsewhere);
    let mut writing = Shell::open(&place.uri("a.db"));
    writing.run("insert into t values(1);");
    waiting.run("insert into t values(2);");
    assert!(waiting.end().contains("its log is in another pool"));
    let message = complaint(&elsewhere);
    assert!(message.contains("its log is in another pool"), "{message}");
    assert_eq!(writing.ask("select n from t;"), "1");
}

/// A refused database leaves nothing in the pool, even while the refused program continues.
#[test]
fn what_is_refused_leaves_nothing_in_the_pool() {
    let (place, other) = (Place::new(), Place::new());
    killed(&place);
    let mut shell = Shell::open(&place.uri("b.db"));
    shell.run("create table t(n);");
    shell.run(&format!(
        ".open file:{}?vfs=ferrite&pool={}",
        place.path("a.db").display(),
        other.path("pool").display()
    ));
    shell.run("select count(*) from t;");
    let left = open_pool(&other.path("pool")).unwrap().databases().unwrap();
    assert!(left.is_empty(), "{left:?}");
    let message = shell.end();
    assert!(message.contains("`ferrite wal forget` gives it up"), "{message}");
}

#[test]
fn a_log_of_another_program_beside_the_database_is_refused() {
    let place = Place::new();
    let mut plain = Shell::plain(&place.path("a.db"));
    plain.run("pragma journal_mode=wal; create table t(n); insert into t values(1);");
    let message = complaint(&place.uri("a.db"));
    assert!(message.contains("a.db-wal is beside it"), "{message}");
    assert_eq!(plain.ask("select count(*) from t;"), "1");
    assert_eq!(plain.end(), "");
    assert_eq!(Shell::open(&place.uri("a.db")).ask("select count(*) from t;"), "1");
}

#[test]
fn no_pool_a_missing_one_and_what_is_none_are_told() {
    let place = Place::new();
    let database = place.path("a.db").display().to_string();
    fs::write(place.path("junk"), vec![1; 10_000_000]).unwrap();
    fs::write(place.path("short"), "less than a page").unwrap();
    for (uri, words) in [
        (format!("file:{database}?vfs=ferrite"), "no pool is named"),
        (format!("file:{database}?vfs=ferrite&pool=/no/such/pool"), "opening the pool /no/such/pool: No such file"),
        (format!("file:{database}?vfs=ferrite&pool={}", place.path("junk").display()), "not a Ferrite pool"),
        (
            format!("file:{database}?vfs=ferrite&pool={}", place.path("short").display()),
            "not a Ferrite pool: it has 16",
        ),
    ] {
        let message = complaint(&uri);
        assert!(message.contains(words), "{message}");
        assert!(!place.path("a.db").exists(), "nothing is left of what was refused: {message}");
    }
}

/// If the pool is full, SQLite reports its own error, no data is lost, and smaller transactions succeed.
#[test]
fn a_full_pool_fails_the_transaction_and_loses_nothing() {
    for mode in ["wal", "delete"] {
        let place = Place::of("/dev/shm", 16 << 20);
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run(&format!("pragma journal_mode={mode}; pragma cache_size=10; create table t(n, b);"));
        for _ in 0..7 {
            shell.run("insert into t select value, randomblob(3000) from generate_series(1, 500);");
        }
        shell.run("begin; update t set b = randomblob(3001); insert into t select value, randomblob(3000) from generate_series(1, 6000); update t set b = randomblob(3002); commit;");
        // SQLite may have rolled back by itself.
        shell.run("rollback;");
        assert_eq!(
            shell.ask("select count(*), max(length(b)) from t; pragma integrity_check;"),
            "3500|3000\nok",
            "{mode}"
        );
        assert_eq!(shell.ask("insert into t values(1, 2); select count(*) from t;"), "3501", "{mode}");
        let message = shell.end();
        assert!(
            message.contains("the pool is full") && message.contains("database or disk is full"),
            "{mode}: {message}"
        );
        assert_eq!(
            Shell::plain(&place.path("a.db")).ask("select count(*) from t; pragma integrity_check;"),
            "3501\nok"
        );
    }
}

/// A journal whose header is zeros holds no data of a deleted database.
#[test]
fn a_database_is_made_anew_where_one_was_deleted_with_nothing_in_its_log() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("pragma journal_mode=persist; create table t(n); insert into t values(1);");
    shell.kill();
    fs::remove_file(place.path("a.db")).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("create table u(n); insert into u values(2); select n from u;"), "2");
    assert_eq!(shell.end(), "");
}

/// WF9: on ext4 a new file may get the inode of a deleted one. The log of the newer file is not used for the older one.
#[test]
fn wf9_a_copy_put_in_the_place_of_a_database_does_not_get_its_log() {
    let place = Place::of(env!("CARGO_TARGET_TMPDIR"), 32 << 20);
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("pragma journal_mode=wal; create table t(n); pragma wal_checkpoint(truncate);");
    fs::copy(place.path("a.db"), place.path("copy.db")).unwrap();
    shell.run("insert into t values(1);");
    shell.kill();
    fs::remove_file(place.path("a.db")).unwrap();
    fs::copy(place.path("copy.db"), place.path("a.db")).unwrap();
    let message = complaint(&place.uri("a.db"));
    assert!(message.contains("it was deleted or replaced") && message.contains("`ferrite wal forget`"), "{message}");
}

/// WF9: a new database is opened without a reference to the deleted one, whether this VFS or another program made it.
#[test]
fn wf9_a_new_database_with_the_inode_of_a_deleted_one_is_opened() {
    let place = Place::of(env!("CARGO_TARGET_TMPDIR"), 32 << 20);
    for (old, new) in [("a.db", "b.db"), ("c.db", "d.db")] {
        let mut shell = Shell::open(&place.uri(old));
        shell.run("pragma journal_mode=wal; create table t(n); insert into t values(1);");
        shell.kill();
        fs::remove_file(place.path(old)).unwrap();
        if new == "d.db" {
            assert_eq!(Shell::plain(&place.path(new)).ask("create table t(n); select 1;"), "1");
        }
        let mut shell = Shell::open(&place.uri(new));
        let said = shell.ask("create table if not exists t(n); insert into t values(7); select n from t;");
        assert_eq!((said.as_str(), shell.end().as_str()), ("7", ""));
        let log_pool = open_pool(&place.path("pool")).unwrap();
        let path = |name| place.path(name).to_str().unwrap().to_owned();
        assert!(!forget(&log_pool, &path(new), None).unwrap().0.was_here);
        let lost = log_pool.databases().unwrap().iter().map(|entry| entry.wal_bytes + entry.journal_bytes).sum();
        assert!(forget(&log_pool, &path(old), Some(lost)).unwrap().0.was_here);
    }
}

/// SV1: without locks SQLite would write a journal behind a header that admits every program, or read past a log.
#[test]
fn sv1_a_database_is_not_opened_without_its_locks() {
    let place = Place::new();
    Shell::open(&place.uri("a.db")).run("create table t(n); insert into t values(1);");
    for parameter in ["nolock=1", "immutable=1", "nolock=yes", "immutable=TRUE"] {
        let mut shell = Shell::open(&format!("{}&{parameter}", place.uri("a.db")));
        assert_eq!(shell.run("select n from t;"), "", "{parameter}");
        let message = shell.end();
        assert!(message.contains("nolock and immutable are not for a database whose log is in a pool"), "{message}");
    }
    let mut shell = Shell::open(&format!("{}&nolock=0&immutable=off", place.uri("a.db")));
    assert_eq!(shell.ask("insert into t values(2); select count(*) from t;"), "2");
    assert_eq!(shell.end(), "");
    let mut shell = Shell::open(&format!("{}&nolock=1", place.uri("b.db")));
    shell.run("create table t(n);");
    assert!(shell.end().contains("open it without them") && !place.path("b.db").exists());
}
