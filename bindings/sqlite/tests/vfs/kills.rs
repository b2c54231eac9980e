//! Programs killed at any moment: every acknowledged transaction is present completely, and no other one is present in
//! part.

use std::thread;
use std::time::Duration;

use crate::Place;
use crate::shell::Shell;

/// Runs transactions; each inserts two rows of the same number, in two tables.
fn transactions(shell: &mut Shell, from: u64, count: u64, bytes: usize) {
    for number in from..from + count {
        shell.send(&format!(
            "begin; insert into t values({number}, randomblob({bytes})); insert into u values({number}); commit; select {number};"
        ));
    }
}

/// Returns the number of transactions, after checking that none is partial and none is missing before the last.
fn count(shell: &mut Shell) -> u64 {
    let sums =
        "select count(*), (select count(*) from u), coalesce(max(n), 0), (select coalesce(max(n), 0) from u) from t;";
    let sums = shell.ask(sums);
    let numbers: Vec<u64> = sums.split('|').map(|number| number.parse().unwrap()).collect();
    assert!(numbers.iter().all(|number| *number == numbers[0]), "in part: {sums}");
    assert_eq!(shell.ask("pragma integrity_check;"), "ok");
    numbers[0]
}

/// Returns how often a kill test repeats: FERRITE_ROUNDS, or five times, which `cargo xtask soak` raises.
fn kill_round_count() -> u64 {
    std::env::var("FERRITE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(5)
}

fn seed() -> u64 {
    let seed = std::env::var("FERRITE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FERRITE_SEED={seed}");
    seed
}

/// Kills a shell in the middle of its work, `rounds` times over the same database.
fn kill_rounds(mode: &str, rounds: u64) {
    let place = Place::new();
    let (mut chance, mut known) = (seed(), 0);
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!(
        "pragma journal_mode={mode}; create table t(n integer primary key, b); create table u(n integer primary key);"
    ));
    assert_eq!(shell.end(), "");
    for round in 0..rounds {
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run("pragma synchronous=full; pragma cache_size=10;");
        let before = count(&mut shell);
        assert!(before >= known, "{mode}, round {round}: {before} of {known} acknowledged transactions");
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        transactions(&mut shell, before + 1, 200, [20, 3000, 60_000][(chance >> 60) as usize % 3]);
        thread::sleep(Duration::from_micros((chance >> 33) % 30_000));
        let heard = shell.kill_and_hear();
        known = heard.last().map_or(before, |line| line.parse().unwrap());
    }
    println!("{mode}: {known} transactions in {rounds} rounds");
    let mut shell = Shell::open(&place.uri("a.db"));
    assert!(count(&mut shell) >= known);
    assert_eq!(shell.end(), "");
    assert!(count(&mut Shell::plain(&place.path("a.db"))) >= known);
}

#[test]
fn wal_keeps_every_acknowledged_transaction() {
    kill_rounds("wal", kill_round_count());
}

#[test]
fn a_rollback_journal_keeps_every_acknowledged_transaction() {
    kill_rounds("delete", kill_round_count());
    kill_rounds("truncate", kill_round_count());
    kill_rounds("persist", kill_round_count());
}

/// SV2: the first transaction of a new database exceeds the cache: its pages were written, but its header was not.
#[test]
fn a_new_database_that_was_killed_before_its_header_was_written_is_empty() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    let spilled = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200) insert into t select \
                   randomblob(3000) from n;";
    shell.run(&format!("pragma cache_size=5; begin; create table t(b); {spilled}"));
    shell.kill();
    let written = std::fs::read(place.path("a.db")).unwrap();
    assert!(written.len() > 4096 && written[..100] == [0; 100], "it is no longer as this test would have it");
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("create table t(b); insert into t values(7); select b from t;"), "7");
    assert_eq!(shell.end(), "");
    assert_eq!(Shell::plain(&place.path("a.db")).ask("select b from t;"), "7");
}

/// SV1: a crash may tear the first page too; the journal has its original.
#[test]
fn a_torn_first_page_comes_back_from_the_log() {
    let place = Place::new();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run("create table t(n); insert into t values(7); pragma cache_size=5;");
    let spilled = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 200) insert into u select \
                   randomblob(3000) from n;";
    shell.run(&format!("begin; create table u(b); {spilled}"));
    shell.kill();
    let file = std::fs::File::options().write(true).open(place.path("a.db")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&file, &[0x55; 512], 0).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("select group_concat(n) || (select count(*) from sqlite_schema) from t;"), "71");
    assert_eq!(shell.end(), "");
    assert_eq!(Shell::plain(&place.path("a.db")).ask("select n from t;"), "7");
}

/// The program is killed in a transaction over two databases. The transaction is in both or in neither, even if they
/// are opened one after the other, each alone. The journal of the database that is opened later decides the fate of
/// their common journal.
#[test]
fn a_transaction_over_two_databases_is_in_both_or_in_neither() {
    let place = Place::new();
    let open = |name: &str| Shell::open(&place.uri(name));
    let counted = |name: &str| -> u64 {
        let mut shell = open(name);
        let said = shell.ask("select count(*) from t;");
        said.parse().unwrap_or_else(|_| panic!("{name}: {said:?}, {}", shell.end()))
    };
    for name in ["a.db", "b.db"] {
        open(name).run("create table t(n);");
    }
    let (mut chance, mut cut) = (seed(), 0);
    for round in 0..kill_round_count() {
        let mut shell = open("a.db");
        shell.run(&format!("attach '{}' as other;", place.uri("b.db")));
        (0..100).for_each(|n| {
            shell.send(&format!("begin; insert into t values({n}); insert into other.t values({n}); commit;"))
        });
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        thread::sleep(Duration::from_micros((chance >> 33) % 20_000));
        shell.kill();
        let common = std::fs::read_dir(place.path("")).unwrap().flatten();
        cut += usize::from(common.into_iter().any(|file| file.file_name().to_string_lossy().contains("-mj")));
        let (a, b) =
            if round % 2 == 0 { (counted("a.db"), counted("b.db")) } else { (counted("b.db"), counted("a.db")) };
        assert_eq!(a, b, "round {round}");
    }
    println!("{cut} rounds ended in the middle of a commit");
}
