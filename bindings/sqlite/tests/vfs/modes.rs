//! The journal modes, and the header's versions in each of them.

use crate::Place;
use crate::shell::Shell;

/// Commits, rolls back, closes and opens again, by this VFS and a plain one, in turn.
#[test]
fn every_mode_commits_rolls_back_and_is_given_back_when_it_is_closed() {
    for mode in ["wal", "delete", "truncate", "persist", "memory", "off"] {
        let place = Place::new();
        let mut shell = Shell::open(&place.uri("a.db"));
        assert_eq!(shell.ask(&format!("pragma journal_mode={mode};")), mode);
        shell.run("create table t(n); insert into t values(1),(2);");
        if mode != "off" {
            shell.run("begin; insert into t select value from generate_series(10, 3000); rollback;");
        }
        assert_eq!(shell.ask("insert into t values(3); select count(*), sum(n) from t;"), "3|6", "{mode}");
        assert_eq!(place.versions("a.db"), [3, 3], "{mode}: SV1");
        for suffix in ["-wal", "-journal"] {
            assert!(!place.path(&format!("a.db{suffix}")).exists(), "{mode}: it is in the pool");
        }
        assert_eq!(shell.end(), "", "{mode}");
        let version = if mode == "wal" { 2 } else { 1 };
        assert_eq!(place.versions("a.db"), [version; 2], "{mode}: SV3");
        let mut plain = Shell::plain(&place.path("a.db"));
        assert_eq!(
            plain.ask("pragma integrity_check; insert into t values(4); select sum(n) from t;"),
            "ok\n10",
            "{mode}"
        );
        assert_eq!(plain.end(), "");
        assert_eq!(Shell::open(&place.uri("a.db")).ask("select sum(n) from t;"), "10", "{mode}");
    }
}

#[test]
fn modes_change_in_an_open_database_and_the_header_never_shows_it() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("create table t(n);");
    for mode in ["wal", "delete", "wal", "truncate", "persist", "wal", "delete"] {
        assert_eq!(shell.ask(&format!("pragma journal_mode={mode};")), mode);
        shell.run("insert into t values(1);");
        assert_eq!(place.versions("a.db"), [3, 3], "SV2");
    }
    assert_eq!(shell.end(), "");
    assert_eq!(place.versions("a.db"), [1, 1]);
    assert_eq!(Shell::plain(&place.path("a.db")).ask("select count(*) from t; pragma integrity_check;"), "7\nok");
}

/// SQLite maps the file and reads pages in place, but it reads the header through this VFS.
#[test]
fn mapped_reads_see_the_header_that_would_be() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("pragma mmap_size=100000000; pragma journal_mode=wal; create table t(n);");
    shell.run("insert into t select value from generate_series(1, 5000); pragma wal_checkpoint(truncate);");
    assert_eq!(shell.ask("select sum(n) from t; pragma integrity_check;"), "12502500\nok");
    let mut other = Shell::open(&place.uri("a.db"));
    assert_eq!(other.ask("pragma mmap_size=100000000; select sum(n) from t;"), "100000000\n12502500");
}

/// Two databases take part in one transaction: their journals name a super-journal, which is a plain file.
#[test]
fn a_transaction_over_two_databases_is_one() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!("attach '{}' as b;", place.uri("b.db")));
    shell.run("create table t(n); create table b.u(n);");
    shell.run("begin; insert into t values(1); insert into u values(2); commit;");
    assert_eq!(shell.ask("select n from t; select n from u;"), "1\n2");
    assert_eq!(shell.end(), "");
    assert_eq!((place.versions("a.db"), place.versions("b.db")), ([1, 1], [1, 1]));
}

/// On an ordinary file a commit waits for the medium, and the rest is unchanged.
#[test]
fn a_pool_in_an_ordinary_file_works_too() {
    let place = Place::of(env!("CARGO_TARGET_TMPDIR"), 32 << 20);
    for mode in ["wal", "delete"] {
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run(&format!("pragma journal_mode={mode}; create table if not exists t(n); insert into t values(1);"));
        shell.kill();
    }
    assert_eq!(Shell::open(&place.uri("a.db")).ask("select count(*) from t; pragma integrity_check;"), "2\nok");
}
