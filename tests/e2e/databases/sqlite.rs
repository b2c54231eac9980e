//! SQLite by its VFS, beside a server that owns the pool, and the commands that see its log and give it back.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run};

/// The library beside the binary; the gate builds both.
fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/ferrite");
    let binary = std::env::var_os("FERRITE_BIN").map_or(built, PathBuf::from);
    let library = binary.with_file_name("libferrite_sqlite");
    assert!(library.with_extension("so").is_file(), "run `cargo build --release -p ferrite-sqlite`");
    library
}

/// Commits `rows` to `database` in a pool, and is killed.
pub fn commit_and_be_killed(pool: &Path, database: &Path, rows: u64) {
    do_and_be_killed(
        pool,
        database,
        &format!("create table if not exists t(n); insert into t select value from generate_series(1, {rows});"),
    );
}

fn do_and_be_killed(pool: &Path, database: &Path, work: &str) {
    let work = format!("pragma journal_mode=wal;\n{work}\n.system kill -9 $PPID\n");
    assert!(!shell(pool, database, &work).status.success(), "it was killed");
}

/// What a shell with `database` open does by this VFS.
fn shell(pool: &Path, database: &Path, work: &str) -> Output {
    let mut shell = client("sqlite3");
    shell.arg("-batch").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut shell = shell.spawn().expect("it starts");
    let (database, pool) = (database.display(), pool.display());
    let script = format!(".load {}\n.open file:{database}?vfs=ferrite&pool={pool}\n{work}\n", library().display());
    shell.stdin.take().expect("piped").write_all(script.as_bytes()).expect("written");
    shell.wait_with_output().expect("it ends")
}

#[test]
fn kill_of_sqlite_and_the_owner_leaves_a_log_that_is_seen_and_given_back() {
    let folder = folder(true);
    let (pool, database) = (folder.path().join("pool"), folder.path().join("a.db"));
    let (pool_name, name) = (pool.to_str().expect("text"), database.to_str().expect("text"));
    let server = Server::start(&pool, &["--no-attach", "--size", "64M", "--disk", "e2e-sqlite=8M"]);
    commit_and_be_killed(&pool, &database, 1000);
    let stat = json(&["wal", "stat", pool_name]);
    assert!(stat[0]["path"] == name && stat[0]["marked"] == true, "{stat}");
    assert!(stat[0]["wal_bytes"].as_u64().expect("bytes") > 10_000, "{stat}");
    assert!(ok(&["tag", "list", pool_name]).contains("database"));
    server.kill();
    commit_and_be_killed(&pool, &database, 10);
    assert_sound(&pool);
    let drained = json(&["wal", "drain", pool_name, name]);
    assert!(drained[0]["copied_bytes"].as_u64().expect("bytes") > 10_000, "{drained}");
    assert_eq!(json(&["wal", "stat", pool_name]), serde_json::json!([]));
    let found = run(client("sqlite3").arg(&database).arg("select count(*) from t; pragma integrity_check;"));
    assert_eq!(found, "1010\nok\n");
    let said = refused(ferrite().args(["wal", "drain", pool_name, name]), 1);
    assert!(said.contains(&format!("no log of {name} is in the pool")), "{said}");
}

/// What cannot be given back keeps no other database from its log.
#[test]
fn one_database_that_is_gone_hinders_no_other() {
    let folder = folder(true);
    let (pool, gone, whole) = (folder.path().join("pool"), folder.path().join("a.db"), folder.path().join("b.db"));
    let pool_name = pool.to_str().expect("text");
    ok(&["pool", "create", pool_name, "--size", "32M"]);
    [&gone, &whole].into_iter().for_each(|database| commit_and_be_killed(&pool, database, 100));
    std::fs::rename(&gone, folder.path().join("elsewhere")).expect("renamed");
    let said = refused(ferrite().args(["wal", "drain", pool_name]), 1);
    assert!(said.contains(&format!("opening {}", gone.display())), "{said}");
    assert!(said.contains(&format!("{}: ", whole.display())) && said.contains("given back"), "{said}");
    let left = json(&["wal", "stat", pool_name]);
    assert_eq!((left.as_array().expect("a list").len(), &left[0]["path"]), (1, &gone.to_str().into()), "{left}");
    assert_eq!(run(client("sqlite3").arg(&whole).arg("select count(*) from t;")), "100\n");
}

/// Three rows that were checkpointed, and a fourth in the log alone.
const FOUR: &str = "create table t(n); insert into t values(1), (2), (3); pragma wal_checkpoint(truncate); \
                    insert into t values(4);";

fn count(database: &Path) -> String {
    run(client("sqlite3").arg(database).arg("select count(*) from t; pragma integrity_check;"))
}

/// A pool in memory is gone with its machine; the databases are not.
#[test]
fn a_database_whose_log_is_lost_goes_on_with_what_was_checkpointed() {
    let folder = folder(true);
    let (pool, database) = (folder.path().join("pool"), folder.path().join("a.db"));
    let (pool_name, name) = (pool.to_str().expect("text"), database.to_str().expect("text"));
    ok(&["pool", "create", pool_name, "--size", "32M"]);
    do_and_be_killed(&pool, &database, FOUR);
    std::fs::remove_file(&pool).expect("removed");
    ok(&["pool", "create", pool_name, "--size", "32M"]);
    let told = shell(&pool, &database, "select count(*) from t;");
    let told = String::from_utf8_lossy(&told.stderr);
    assert!(told.contains("its log is in another pool") && told.contains("`ferrite wal forget`"), "{told}");
    let told = refused(ferrite().args(["wal", "drain", pool_name, name]), 1);
    assert!(told.contains("`ferrite wal forget`"), "{told}");
    let told = ok(&["wal", "forget", pool_name, name]);
    assert!(told.contains("what was committed since the last checkpoint is lost"), "{told}");
    assert_eq!(count(&database), "3\nok\n");
    let found = shell(&pool, &database, "select count(*) from t;");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "3\n", "{found:?}");
    let told = refused(ferrite().args(["wal", "forget", pool_name, name]), 1);
    assert!(told.contains("its file says of none"), "{told}");
}

/// What is in a log is not lost by the way.
#[test]
fn a_log_with_something_in_it_is_given_up_only_by_who_says_so() {
    let folder = folder(true);
    let (pool, database) = (folder.path().join("pool"), folder.path().join("a.db"));
    let (pool_name, name) = (pool.to_str().expect("text"), database.to_str().expect("text"));
    ok(&["pool", "create", pool_name, "--size", "32M"]);
    do_and_be_killed(&pool, &database, FOUR);
    let told = refused(ferrite().args(["tag", "remove", pool_name, name]), 1);
    assert!(told.contains("`ferrite wal drain` gives it back"), "{told}");
    let told = refused(ferrite().args(["wal", "forget", pool_name, name]), 1);
    assert!(told.contains("--lose gives it up"), "{told}");
    let found = shell(&pool, &database, "select count(*) from t;\n.system kill -9 $PPID");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "4\n", "{found:?}");
    let told = ok(&["wal", "forget", pool_name, name, "--lose"]);
    assert!(told.contains("may have been nowhere else"), "{told}");
    assert_eq!((count(&database).as_str(), json(&["wal", "stat", pool_name])), ("3\nok\n", serde_json::json!([])));
}

/// A database that is gone is named by whatever leads to its folder.
#[test]
fn the_log_of_a_deleted_database_is_given_up_by_a_link_to_its_folder() {
    let folder = folder(true);
    let (pool, real, link) = (folder.path().join("pool"), folder.path().join("real"), folder.path().join("link"));
    let pool_name = pool.to_str().expect("text");
    ok(&["pool", "create", pool_name, "--size", "32M"]);
    std::fs::create_dir(&real).expect("made");
    std::os::unix::fs::symlink(&real, &link).expect("linked");
    do_and_be_killed(&pool, &link.join("a.db"), FOUR);
    std::fs::remove_file(real.join("a.db")).expect("removed");
    let by_link = link.join("a.db");
    let told = refused(ferrite().args(["wal", "forget", pool_name]).arg(&by_link), 1);
    assert!(told.contains("--lose gives it up"), "{told}");
    ok(&["wal", "forget", pool_name, by_link.to_str().expect("text"), "--lose"]);
    assert_eq!(json(&["wal", "stat", pool_name]), serde_json::json!([]));
}
