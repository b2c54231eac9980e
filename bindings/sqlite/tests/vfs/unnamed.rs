//! Databases that a connection opens without naming a pool: SQLite passes its VFS on, but not its URI.

use crate::Place;
use crate::shell::Shell;

/// The recipe in the documentation: a copy by `VACUUM INTO`, complete for any program.
#[test]
fn a_database_is_vacuumed_into_a_plain_file() {
    for mode in ["wal", "delete"] {
        let place = Place::new();
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run(&format!("pragma journal_mode={mode}; create table t(n);"));
        shell.run("insert into t select value from generate_series(1, 3000);");
        shell.run(&format!("vacuum into '{}';", place.path("copy.db").display()));
        let sum = "select sum(n) from t; pragma integrity_check;";
        assert_eq!(Shell::plain(&place.path("copy.db")).ask(sum), "4501500\nok", "{mode}");
        assert!(place.versions("copy.db")[1] < 3, "{mode}: no pool has anything of it");
        assert_eq!(shell.ask(sum), "4501500\nok", "{mode}");
        assert_eq!(shell.end(), "", "{mode}");
        // With a named pool the copy is an ordinary database from then on.
        assert_eq!(Shell::open(&place.uri("copy.db")).ask(sum), "4501500\nok", "{mode}");
    }
}

/// Other programs may have the database open at once, so its log stays beside it.
#[test]
fn an_attached_database_without_a_pool_has_its_log_beside_it() {
    for (mode, suffix) in [("wal", "-wal"), ("delete", "-journal")] {
        let place = Place::new();
        let mut plain = Shell::plain(&place.path("b.db"));
        plain.run(&format!("pragma journal_mode={mode}; create table u(n);"));
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run(&format!("create table t(n); attach '{}' as b;", place.path("b.db").display()));
        shell.run("begin; insert into t values(1); insert into u values(2);");
        assert!(place.path(&format!("b.db{suffix}")).exists() && !place.path("a.db-journal").exists(), "{mode}");
        shell.run("commit;");
        assert_eq!(plain.ask("insert into u values(3); select sum(n) from u;"), "5", "{mode}");
        assert_eq!(shell.ask("select sum(n) from u; select n from t;"), "5\n1", "{mode}");
        assert_eq!((place.versions("a.db")[1], place.versions("b.db")[1] < 3), (3, true), "{mode}");
        shell.send("begin; insert into u values(4);");
        shell.kill();
        assert_eq!(plain.ask("select sum(n) from u; pragma integrity_check;"), "5\nok", "{mode}");
    }
}

/// An attached database whose log is in a pool that is open here is found there, and not opened as a plain file.
#[test]
fn an_attached_database_whose_log_is_in_the_pool_is_found_there() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("b.db"));
    shell.run("pragma journal_mode=wal; create table u(n); insert into u values(1);");
    shell.kill();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!("attach '{}' as b;", place.path("b.db").display()));
    assert_eq!(shell.ask("insert into u values(2); select sum(n) from u;"), "3");
    assert!(!place.path("b.db-wal").exists());
    assert_eq!(shell.end(), "");
    assert_eq!(Shell::plain(&place.path("b.db")).ask("select sum(n) from u;"), "3");
}
