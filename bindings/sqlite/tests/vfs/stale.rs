//! WF10, WF11: an older copy of the pool is never used with a newer database file: the tests try every pair of instants
//! of a history.

use std::collections::BTreeSet;
use std::fs;

use ferrite_sqlite_log::Error;
use ferrite_sqlite_log::{GiveBack, STAMP_AT, forget};

use crate::shell::Shell;
use crate::{Place, open_pool};

/// Smaller pools are quicker to copy.
const POOL_BYTES: u64 = 10 << 20;
const LOOK: &str = "pragma integrity_check; select count(*), sum(length(b)), max(b) from t;";
const MAKE: &str = "create table t(a integer primary key, b); create index ib on t(b); insert into t select value, 'old' || \
                    value from generate_series(1, 600);";

/// A step in the history of a database.
#[derive(Clone, Copy)]
enum Act {
    /// Statements by this VFS, in a program that continues after the step.
    Here(&'static str),
    /// Statements like `Here`, after which the program is killed.
    Killed(&'static str),
    /// Statements by a plain SQLite, after the program with this VFS ended.
    Plain(&'static str),
}
use Act::{Here, Killed, Plain};

const WAL: [Act; 11] = [
    Here("pragma journal_mode=wal; pragma wal_autocheckpoint=0;"),
    Here(MAKE),
    Here("pragma wal_checkpoint(truncate);"),
    Here("update t set b = 'mid' || a where a < 40;"),
    Here("pragma wal_checkpoint(passive);"),
    Here("update t set b = 'new' || a || hex(zeroblob(90)) where a % 7 = 0; delete from t where a % 3 = 0;"),
    Killed("pragma wal_checkpoint(truncate);"),
    Here("insert into t(b) values('x');"),
    Plain("update t set b = 'plain' || a where a % 5 = 0; delete from t where a % 11 = 0;"),
    Here("insert into t select value, 'late' || value from generate_series(3000, 3400);"),
    Here("pragma wal_checkpoint(restart); delete from t where a % 4 = 0;"),
];

/// One program alone, without the shared memory whose locks reveal a checkpoint.
const EXCLUSIVE: [Act; 6] = [
    Here("pragma locking_mode=exclusive; pragma journal_mode=wal; pragma wal_autocheckpoint=0;"),
    Here(MAKE),
    Here("pragma wal_checkpoint(truncate); update t set b = 'mid' || a where a < 40;"),
    Here("pragma wal_checkpoint(passive);"),
    Here("update t set b = 'new' || a || hex(zeroblob(90)) where a % 7 = 0; delete from t where a % 3 = 0;"),
    Here("pragma wal_checkpoint(truncate); insert into t(b) values('x');"),
];

/// Transactions that write pages before they end.
const JOURNAL: [Act; 10] = [
    Here("pragma cache_size=2;"),
    Here(MAKE),
    Here("begin; update t set b = 'mid' || a || hex(zeroblob(90)) where a < 200;"),
    Here("update t set b = 'more' || a || hex(zeroblob(90)) where a > 300;"),
    Here("commit;"),
    Here("delete from t where a % 3 = 0;"),
    Killed("begin; update t set b = 'never' || a || hex(zeroblob(200)); delete from t where a % 5 = 0;"),
    Here("update t set b = 'late' || a where a % 5 = 0;"),
    Plain("update t set b = 'plain' || a where a % 5 = 0; delete from t where a % 11 = 0;"),
    Here("begin; update t set b = 'last' || a || hex(zeroblob(90));"),
];

/// The pool and the database at one instant.
struct Moment {
    pool: Vec<u8>,
    database: Vec<u8>,
    /// The content that a query finds, outside of transactions.
    content: String,
}

/// Runs `acts` after the statements `first`; returns the place and every moment of the history.
fn history(first: &str, acts: &[Act]) -> (Place, Vec<Moment>) {
    let place = Place::of("/dev/shm", POOL_BYTES);
    let (mut shell, mut moments, mut content) = (None, Vec::new(), String::new());
    let mut is_amid = false;
    for act in acts {
        let (Here(sql) | Killed(sql) | Plain(sql)) = act;
        if let Plain(_) = act {
            assert_eq!(shell.take().map_or(String::new(), Shell::end), "");
            let mut plain = Shell::plain(&place.path("a.db"));
            content = plain.ask(&format!("{sql} {LOOK}"));
            assert_eq!(plain.end(), "");
        } else {
            let open = || {
                let mut shell = Shell::open(&place.uri("a.db"));
                shell.run(first);
                shell
            };
            let shell = shell.get_or_insert_with(open);
            shell.run(sql);
            is_amid = (is_amid || sql.starts_with("begin")) && !sql.contains("commit;");
            if !is_amid && !moments.is_empty() {
                content = shell.ask(LOOK);
            }
        }
        if let Killed(_) = act {
            shell.take().expect("it is open").kill();
            is_amid = false;
        }
        let [pool, database] = ["pool", "a.db"].map(|name| fs::read(place.path(name)).unwrap());
        moments.push(Moment { pool, database, content: content.clone() });
    }
    drop(shell);
    (place, moments)
}

/// Returns the content that this VFS finds with that pool and that file, and the errors that it prints.
fn look(place: &Place, pool: &[u8], database: &[u8]) -> (String, String) {
    fs::write(place.path("pool"), pool).unwrap();
    fs::write(place.path("a.db"), database).unwrap();
    let _ = fs::remove_file(place.path("a.db-shm"));
    let mut shell = Shell::open(&place.uri("a.db"));
    let found = shell.ask(LOOK);
    (found, shell.end())
}

/// Returns the later file with the stamp of the earlier one, as if the tie had not advanced.
fn unmoved(then: &Moment, now: &Moment) -> Vec<u8> {
    let stamp = STAMP_AT as usize..STAMP_AT as usize + 20;
    let mut database = now.database.clone();
    if database.len() > stamp.end && then.database.len() > stamp.end {
        database[stamp.clone()].copy_from_slice(&then.database[stamp]);
    }
    database
}

/// Tries every older pool with every later file; returns the number of refused pairs, or the first pair that failed.
fn pairs(first: &str, acts: &[Act], is_planted: bool) -> Result<usize, String> {
    let (place, moments) = history(first, acts);
    let right: BTreeSet<&str> = moments.iter().map(|moment| moment.content.as_str()).collect();
    let mut refused = 0;
    for (at, now) in moments.iter().enumerate() {
        for (then_at, then) in moments[..=at].iter().enumerate() {
            let database = if is_planted { unmoved(then, now) } else { now.database.clone() };
            let (found, message) = look(&place, &then.pool, &database);
            let case = format!("the pool of {then_at} and the file of {at}: {found:?}, {message}");
            if message.contains("Nothing was changed") || message.contains("was replaced while its log") {
                refused += 1;
                let is_intact = fs::read(place.path("a.db")).unwrap() == database;
                if !is_intact || then_at == at {
                    return Err(format!("refused, intact: {is_intact}: {case}"));
                }
            } else if message.contains("its log is in another pool") {
                refused += 1;
            } else if !(right.contains(found.as_str()) || found == "ok" && then_at == 0) {
                return Err(case);
            } else if then_at == at && found != now.content && at > 0 {
                return Err(format!("{:?} was committed: {case}", now.content));
            }
        }
    }
    Ok(refused)
}

#[test]
fn wf10_an_older_log_never_meets_a_newer_database() {
    for (first, acts) in
        [("", &WAL[..]), ("pragma locking_mode=exclusive;", &EXCLUSIVE), ("pragma cache_size=2;", &JOURNAL)]
    {
        let refused = pairs(first, acts, false).unwrap();
        println!("{first:?}: {refused} pairs refused");
        assert!(refused > 5, "{first:?}: {refused} pairs refused");
    }
}

/// The planted bug breaks WF10: the file has the stamp that it had when the pool was copied.
#[test]
fn canary_a_tie_that_does_not_advance_is_caught() {
    for (first, acts) in [("", &WAL[..]), ("pragma cache_size=2;", &JOURNAL)] {
        let caught = pairs(first, acts, true).expect_err("an older log was replayed over a newer file");
        println!("{first:?}: {caught}");
    }
}

const ON: &str = "update t set b = 'new' || a || hex(randomblob(60)) where a % 7 = 0; delete from t where a % 3 = 0; \
                  pragma wal_checkpoint(truncate); insert into t(b) values('x');";

fn made(place: &Place) {
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(&format!(
        "pragma journal_mode=wal; {MAKE} pragma wal_checkpoint(truncate); update t set b = 'mid' where a < 50;"
    ));
    shell.kill();
}

/// Returns the refusal, which names both sides, the later one, and the losses of each way out.
fn refusal(place: &Place) -> String {
    let before = fs::read(place.path("a.db")).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("select count(*) from t;"), "");
    let message = shell.end();
    let helps = ["do not go together", "generation", "Nothing was changed", "`ferrite wal forget", "--lose "];
    assert!(helps.into_iter().all(|words| message.contains(words)), "{message}");
    assert!(message.contains(place.path("pool").to_str().unwrap()), "{message}");
    assert!(fs::read(place.path("a.db")).unwrap() == before, "what is refused is not written");
    message
}

/// Repeats `work` while a lock seems held, and returns its result. A shell that another test starts inherits this
/// process's locks until its exec.
fn unheld<T>(work: impl Fn() -> Result<T, Error>) -> Result<T, Error> {
    let is_held = |done: &Result<T, Error>| done.as_ref().is_err_and(|why| why.to_string().contains("is in use: end"));
    std::iter::repeat_with(work).take(100_000).find(|done| !is_held(done)).expect("a shell starts within 100,000 tries")
}

/// Gives up the log in the pool with the number from `message`; returns the content of the database after
/// that.
fn given_up(place: &Place, message: &str) -> String {
    let words = message.split_once("--lose ").expect("it says the way out").1;
    let bytes: u64 = words.split('`').next().unwrap().parse().expect("a number");
    let log_pool = open_pool(&place.path("pool")).unwrap();
    let path = place.path("a.db").display().to_string();
    assert!(forget(&log_pool, &path, Some(bytes + 1)).is_err(), "another number was not agreed to");
    let (forgotten, _) = unheld(|| forget(&log_pool, &path, Some(bytes))).unwrap();
    assert_eq!(forgotten.lost_bytes, bytes);
    drop(log_pool);
    Shell::open(&place.uri("a.db")).ask("pragma integrity_check; select count(*) from t;")
}

/// The pool's image of yesterday is refused by opening and by draining.
#[test]
fn an_older_pool_is_refused_and_its_way_out_leaves_the_database_whole() {
    let place = Place::new();
    made(&place);
    let yesterday = fs::read(place.path("pool")).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(ON);
    shell.kill();
    fs::write(place.path("pool"), yesterday).unwrap();
    let message = refusal(&place);
    assert!(message.contains("the file is later"), "{message}");
    let log_pool = open_pool(&place.path("pool")).unwrap();
    let path = place.path("a.db").display().to_string();
    let before = fs::read(&path).unwrap();
    let drained = unheld(|| GiveBack::begin(&log_pool, &path).map(drop)).expect_err("it is refused").to_string();
    assert!(drained.contains("the file is later") && fs::read(&path).unwrap() == before, "{drained}");
    drop(log_pool);
    assert_eq!(given_up(&place, &message), "ok\n400");
}

/// After its log was given up, the database uses another pool. The first pool is then refused.
#[test]
fn a_pool_whose_log_was_given_up_elsewhere_is_refused_and_the_other_one_goes_on() {
    let place = Place::new();
    made(&place);
    let first = fs::read(place.path("pool")).unwrap();
    let other = Place::new();
    fs::copy(other.path("pool"), place.path("pool")).unwrap();
    let log_pool = open_pool(&place.path("pool")).unwrap();
    unheld(|| forget(&log_pool, place.path("a.db").to_str().unwrap(), None)).unwrap();
    drop(log_pool);
    let mut shell = Shell::open(&place.uri("a.db"));
    shell.run(ON);
    shell.kill();
    let second = fs::read(place.path("pool")).unwrap();
    fs::write(place.path("pool"), first).unwrap();
    let message = refusal(&place);
    assert!(message.contains("the file has its log in another pool"), "{message}");
    let bytes: u64 = message.split_once("--lose ").unwrap().1.split('`').next().unwrap().parse().unwrap();
    let log_pool = open_pool(&place.path("pool")).unwrap();
    let (forgotten, _) = unheld(|| forget(&log_pool, place.path("a.db").to_str().unwrap(), Some(bytes))).unwrap();
    assert!(forgotten.is_of_another, "the header stays with the other pool");
    drop(log_pool);
    fs::write(place.path("pool"), second).unwrap();
    assert_eq!(Shell::open(&place.uri("a.db")).ask("pragma integrity_check; select count(*) from t;"), "ok\n401");
}

/// The database file of yesterday is refused with the pool of today, and so are two histories that began with one copy.
#[test]
fn an_older_file_and_a_history_that_went_on_elsewhere_are_refused() {
    let place = Place::new();
    made(&place);
    let [pool, database] = ["pool", "a.db"].map(|name| fs::read(place.path(name)).unwrap());
    let on = || {
        let mut shell = Shell::open(&place.uri("a.db"));
        shell.run(ON);
        shell.kill();
        ["pool", "a.db"].map(|name| fs::read(place.path(name)).unwrap())
    };
    let [pool_1, database_1] = on();
    fs::write(place.path("a.db"), &database).unwrap();
    let message = refusal(&place);
    assert!(message.contains("the pool is later"), "{message}");
    fs::write(place.path("pool"), pool).unwrap();
    let [pool_2, database_2] = on();
    for (pool, database) in [(&pool_1, &database_2), (&pool_2, &database_1)] {
        fs::write(place.path("pool"), pool).unwrap();
        fs::write(place.path("a.db"), database).unwrap();
        let message = refusal(&place);
        assert!(message.contains("two copies went on separately"), "{message}");
    }
    fs::write(place.path("a.db"), database_2).unwrap();
    assert_eq!(Shell::open(&place.uri("a.db")).ask("pragma integrity_check; select count(*) from t;"), "ok\n401");
}

/// WF10: a log of an earlier version, whose file has no stamp, continues in use; its file gets a stamp at the next
/// checkpoint.
#[test]
fn wf10_a_log_of_a_version_without_an_identity_is_adopted() {
    let place = Place::new();
    made(&place);
    place.forget_identity("a.db");
    let mut database = fs::read(place.path("a.db")).unwrap();
    database[72..92].fill(0);
    fs::write(place.path("a.db"), database).unwrap();
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("select count(*) from t where b = 'mid';"), "49");
    assert_eq!(fs::read(place.path("a.db")).unwrap()[72..92], [0; 20]);
    shell.run("pragma wal_checkpoint(truncate); insert into t(b) values('x');");
    assert_ne!(fs::read(place.path("a.db")).unwrap()[72..92], [0; 20]);
    shell.kill();
    let mut shell = Shell::open(&place.uri("a.db"));
    assert_eq!(shell.ask("pragma integrity_check; select count(*) from t;"), "ok\n601");
    assert_eq!(shell.end(), "");
    // After a proper close the file has the content that SQLite expects.
    assert_eq!((place.versions("a.db"), &fs::read(place.path("a.db")).unwrap()[72..92]), ([2, 2], &[0; 20][..]));
}
