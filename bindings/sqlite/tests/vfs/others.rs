//! Several processes at once, including the pool's owner.

use crate::shell::Shell;
use crate::{Place, open_pool};

/// Both processes write at once; the owner of the pool is killed, and the other process continues and grows the log.
#[test]
fn two_processes_write_at_once_and_the_owners_death_stops_nobody() {
    for mode in ["wal", "delete"] {
        let place = Place::new();
        let mut first = Shell::open(&place.uri("a.db"));
        first.run(&format!("pragma journal_mode={mode}; create table t(n, b);"));
        let mut second = Shell::open(&place.uri("a.db"));
        for shell in [&mut first, &mut second] {
            (0..40).for_each(|n| shell.send(&format!("insert into t values({n}, randomblob(2000));")));
        }
        first.run("");
        assert_eq!(second.ask("select count(*) >= 40 from t;"), "1");
        first.kill();
        second.run("insert into t select value, randomblob(2000) from generate_series(1, 2000);");
        assert_eq!(
            second.ask("select count(*) from t where length(b) = 2000; pragma integrity_check;"),
            "2080\nok",
            "{mode}"
        );
        // A third process connects to the second, which owns the pool by now.
        let mut third = Shell::open(&place.uri("a.db"));
        assert_eq!(third.ask("insert into t values(0, 0); select count(*) from t;"), "2081");
        assert_eq!(second.end(), "");
        assert_eq!(third.ask("insert into t values(0, 0); select count(*) from t;"), "2082");
        assert_eq!(third.end(), "");
        assert_eq!(
            Shell::plain(&place.path("a.db")).ask("select count(*) from t; pragma integrity_check;"),
            "2082\nok"
        );
    }
}

/// A reader sees its snapshot while a writer commits, like with any VFS.
#[test]
fn readers_keep_their_snapshot() {
    let place = Place::new();
    let mut writer = Shell::open(&place.uri("a.db"));
    writer.run("pragma journal_mode=wal; create table t(n); insert into t values(1);");
    let mut reader = Shell::open(&place.uri("a.db"));
    assert_eq!(reader.ask("begin; select count(*) from t;"), "1");
    writer.run("insert into t values(2);");
    assert_eq!(reader.ask("select count(*) from t;"), "1");
    assert_eq!(reader.ask("commit; select count(*) from t;"), "2");
}

/// A process without SQLite owns the pool; two databases use it at once, and leave no files.
#[test]
fn databases_share_a_pool_that_somebody_else_owns() {
    let place = Place::new();
    let log_pool = open_pool(&place.path("pool")).unwrap();
    assert!(log_pool.is_owner());
    let mut shells: Vec<Shell> = ["a.db", "b.db"].map(|name| Shell::open(&place.uri(name))).into();
    for shell in &mut shells {
        shell.run("pragma journal_mode=wal; create table t(n);");
        (0..20).for_each(|n| shell.send(&format!("insert into t values({n});")));
    }
    let list = || log_pool.ask::<serde_json::Value>(&ferrite_sqlite_log::DatabaseRequest::List).unwrap().0;
    let entries = list();
    assert_eq!(entries.as_array().unwrap().len(), 2, "{entries}");
    assert!(entries[0]["wal_bytes"].as_u64().unwrap() > 0 && entries[0]["marked"] == true, "{entries}");
    for mut shell in shells {
        assert_eq!(shell.ask("select count(*) from t;"), "20");
        assert_eq!(shell.end(), "");
    }
    assert_eq!(list(), serde_json::json!([]));
}
