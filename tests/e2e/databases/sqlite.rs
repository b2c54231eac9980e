//! SQLite through Ferrite's VFS, beside a server that owns the pool, and the commands that list and return its log.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Output, Stdio};

use crate::programs::{client, ferrite};
use crate::server::{Server, assert_sound, folder, json, ok, refused, run, signal};

/// Returns the library's path beside the binary. The gate builds both.
fn library() -> PathBuf {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/ferrite");
    let binary = std::env::var_os("FERRITE_BIN").map_or(built, PathBuf::from);
    let library = binary.with_file_name("libferrite_sqlite");
    assert!(library.with_extension("so").is_file(), "run `cargo build --release -p ferrite-sqlite`");
    library
}

/// Commits `rows` to `database` in a pool, and then a signal kills the shell.
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

/// Returns the output of an SQLite shell that opens `database` by this VFS and runs `work`.
pub fn shell(pool: &Path, database: &Path, work: &str) -> Output {
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

/// If `wal return` fails for one database, the other databases still get their logs back.
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

/// Makes three rows that SQLite has checkpointed, and a fourth row in the log alone.
const FOUR: &str = "create table t(n); insert into t values(1), (2), (3); pragma wal_checkpoint(truncate); \
                    insert into t values(4);";

fn count(database: &Path) -> String {
    run(client("sqlite3").arg(database).arg("select count(*) from t; pragma integrity_check;"))
}

/// A pool in memory is lost with its machine, and the databases are not.
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

/// Returns the number that a refusal names after `--lose`.
fn to_lose(told: &str) -> String {
    let words = told.split_once("--lose ").unwrap_or_else(|| panic!("{told}")).1;
    words.split(|c: char| !c.is_ascii_digit()).next().expect("a number").into()
}

/// A command discards the content of a log only if the user asks for it with `--lose`.
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
    let bytes = to_lose(&told);
    let other = refused(ferrite().args(["wal", "forget", pool_name, name, "--lose", "1"]), 1);
    assert_eq!(to_lose(&other), bytes, "another number is refused with the right one");
    let found = shell(&pool, &database, "select count(*) from t;\n.system kill -9 $PPID");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "4\n", "{found:?}");
    let told = ok(&["wal", "forget", pool_name, name, "--lose", &bytes]);
    assert!(told.contains("may have been nowhere else"), "{told}");
    assert_eq!((count(&database).as_str(), json(&["wal", "stat", pool_name])), ("3\nok\n", serde_json::json!([])));
}

/// If the database is deleted, any path to its folder names the database.
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
    ok(&["wal", "forget", pool_name, by_link.to_str().expect("text"), "--lose", &to_lose(&told)]);
    assert_eq!(json(&["wal", "stat", pool_name]), serde_json::json!([]));
}

/// An SQLite shell that has `database` open by this VFS, and the lines of its answers.
struct Session {
    child: std::process::Child,
    answers: std::io::Lines<BufReader<ChildStdout>>,
}

impl Session {
    fn open(pool: &Path, database: &Path) -> Self {
        let mut shell = client("stdbuf");
        shell.args(["-oL", "sqlite3", "-batch"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = shell.spawn().expect("it starts");
        let answers = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut session = Self { child, answers };
        let (database, pool) = (database.display(), pool.display());
        session.ask(&format!(".load {}\n.open file:{database}?vfs=ferrite&pool={pool}", library().display()));
        session
    }

    fn ask(&mut self, sql: &str) -> Vec<String> {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(format!("{sql}\n.print DONE\n").as_bytes()).expect("written");
        let said = self.answers.by_ref().map(|line| line.expect("a line"));
        said.take_while(|line| line != "DONE").collect()
    }

    fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("ended");
    }
}

const OLD: &str = "pragma journal_mode=wal; create table t(a integer primary key, b); create index ib on t(b); insert into t \
                   select value, 'old' || value from generate_series(1, 5000); pragma wal_checkpoint(truncate); update t set \
                   b = 'mid' || a where a < 40;";
const NEW: &str = "update t set b = 'new' || a || hex(randomblob(50)) where a % 7 = 0; delete from t where a % 3 = 0; pragma \
                   wal_checkpoint(truncate); insert into t(b) values('x');";

/// The power fails after the UPS's signal, so the pool's image is older than the database. The VFS refuses that log and
/// serves other databases of the pool. Discarding the log leaves the database whole.
#[test]
fn an_image_that_is_older_than_the_database_keeps_its_log_from_it() {
    let folder = folder(true);
    let path = |name: &str| folder.path().join(name);
    let (pool, image, database, other) = (path("pool"), path("ups.img"), path("a.db"), path("b.db"));
    let [pool_name, image_name, name] = [&pool, &image, &database].map(|path| path.to_str().expect("text"));
    let args = ["up", "--no-disk", "--no-mount", "--size", "64M", "--backup", image_name, "--pool", pool_name];
    let up = Server::start_as_program(&args);
    do_and_be_killed(&pool, &other, FOUR);
    let mut session = Session::open(&pool, &database);
    session.ask(OLD);
    signal(up.pid(), "PWR");
    let is_there = |_: &i32| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        image.exists()
    };
    assert!((0..200).any(|round| is_there(&round)), "no image");
    assert_eq!(
        session.ask(&format!("{NEW} select count(*) from t; pragma integrity_check;")).last().expect("ok"),
        "ok"
    );
    session.kill();
    up.kill();
    std::fs::remove_file(&pool).expect("removed");
    ok(&["pool", "restore", image_name, pool_name]);
    let before = std::fs::read(&database).expect("a file");
    let told = shell(&pool, &database, "select count(*) from t;");
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    assert!(told.contains("the file is later: this pool is an older copy"), "{told}");
    let drained = refused(ferrite().args(["wal", "drain", pool_name, name]), 1);
    assert!(drained.contains("the file is later"), "{drained}");
    assert!(std::fs::read(&database).expect("a file") == before, "what is refused is not written");
    let found = shell(&pool, &other, "select count(*) from t;");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "4\n", "the others are served: {found:?}");
    ok(&["wal", "forget", pool_name, name, "--lose", &to_lose(&told)]);
    let found = shell(&pool, &database, "pragma integrity_check; select count(*) from t;");
    assert_eq!(String::from_utf8_lossy(&found.stdout), "ok\n3334\n", "{found:?}");
}
