//! Databases on the mounted file system: every acknowledged commit survives a `kill -9` of the server.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::direct::direct;
use crate::kill::{Seed, number};
use crate::mount::{can_mount, start};
use crate::programs::client;
use crate::server::{Server, assert_sound, folder, run, signal, wait};

/// A database on the mount.
trait Database {
    /// Starts the database's server on `at`, if it has one, and makes missing files.
    fn open(&mut self, at: &Path);
    /// Returns a program that commits consecutive numbers and prints each number after its commit is acknowledged.
    fn writer(&self, at: &Path) -> Command;
    /// Returns the largest number in the database. Panics unless it holds all smaller numbers too, with their original
    /// content.
    fn largest(&self, at: &Path) -> u64;
    /// Stops the database's server, whatever its state.
    fn close(&mut self);
}

/// Runs `writer` and kills the server a `while_longer` after the first commit. Returns the last acknowledged number.
fn killed_under(server: Server, writer: &mut Command, while_longer: Duration) -> u64 {
    let mut writer = writer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the writer starts");
    let mut lines = BufReader::new(writer.stdout.take().expect("piped")).lines().map_while(Result::ok);
    let mut message = lines.next().and_then(|line| line.parse().ok()).expect("a first commit");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(while_longer);
            server.kill();
        });
        for number in lines.filter_map(|line| line.parse().ok()) {
            message = number;
        }
    });
    writer.wait().expect("ends, for its file system is gone");
    message
}

/// Runs a few rounds and prints the number of commits.
fn kill_rounds(database: &mut impl Database, more: &[&str]) {
    if !can_mount() {
        return;
    }
    let seed = number("FERRITE_SEED", 1);
    println!("FERRITE_SEED={seed}");
    let mut random = Seed(seed);
    let folder = folder(true);
    // The databases run as users of their own.
    run(Command::new("chmod").arg("755").arg(folder.path()));
    let (pool, at) = (folder.path().join("pool"), folder.path().join("mnt"));
    let begin = || start(&pool, &at, &[&["--size", "384M", "--disk", "d=8M", "--allow-other"][..], more].concat());
    let mut server = begin();
    database.open(&at);
    let mut message = 0;
    for round in 0..number("FERRITE_ROUNDS", 3) {
        message = killed_under(server, &mut database.writer(&at), Duration::from_millis(5 + random.below(200)));
        database.close();
        server = begin();
        database.open(&at);
        let found = database.largest(&at);
        assert!(found >= message, "round {round}: {message} was committed, {found} is the last that is there");
    }
    database.close();
    server.interrupt();
    assert_sound(&pool);
    println!("{message} commits, none lost");
}

/// A database whose writer runs under `ferrite run`.
struct Direct<D>(D);

impl<D: Database> Database for Direct<D> {
    fn open(&mut self, at: &Path) {
        self.0.open(at);
    }

    fn writer(&self, at: &Path) -> Command {
        direct(&self.0.writer(at), &[])
    }

    fn largest(&self, at: &Path) -> u64 {
        self.0.largest(at)
    }

    fn close(&mut self) {
        self.0.close();
    }
}

struct Sqlite(&'static str);

const SQLITE_WRITER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/db", isolation_level=None)
db.execute("pragma journal_mode=" + sys.argv[2]); db.execute("pragma synchronous=full")
db.execute("create table if not exists t(i integer primary key, b blob)")
i = db.execute("select coalesce(max(i), 0) from t").fetchone()[0]
while True:
    i += 1
    db.execute("insert into t values(?, ?)", (i, bytes([i % 251]) * (i * 37 % 5000)))
    print(i, flush=True)
"#;

const SQLITE_READER: &str = r#"
import sqlite3, sys
db = sqlite3.connect(sys.argv[1] + "/db")
assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
rows = db.execute("select i, b from t order by i").fetchall()
assert [i for i, _ in rows] == list(range(1, len(rows) + 1))
assert all(b == bytes([i % 251]) * (i * 37 % 5000) for i, b in rows)
print(len(rows))
"#;

impl Database for Sqlite {
    fn open(&mut self, _: &Path) {}

    fn writer(&self, at: &Path) -> Command {
        let mut program = client("python3");
        program.args(["-c", SQLITE_WRITER]).arg(at).arg(self.0);
        program
    }

    fn largest(&self, at: &Path) -> u64 {
        run(client("python3").args(["-c", SQLITE_READER]).arg(at)).trim().parse().expect("a number")
    }

    fn close(&mut self) {}
}

#[derive(Default)]
struct Redis {
    child: Option<Child>,
    /// True if the database runs under `ferrite run`.
    is_direct: bool,
}

const REDIS_CLIENT: &str = r#"
import socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rwb")
def ask(*words):
    f.write(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)); f.flush()
    line = f.readline()
    if not line or line[:1] == b"-": sys.exit(1)
    if line[:1] == b"$": return None if line[1:2] == b"-" else f.read(int(line[1:]) + 2)[:-2]
    return line[1:-2]
i = int(ask(b"DBSIZE"))
if sys.argv[2] == "read":
    assert all(ask(b"GET", b"%d" % k) == b"%d" % k * 20 for k in range(1, i + 1))
    print(i); sys.exit()
while True:
    i += 1
    assert ask(b"SET", b"%d" % i, b"%d" % i * 20) == b"OK"
    print(i, flush=True)
"#;

impl Redis {
    fn client(at: &Path, what: &str) -> Command {
        let mut program = client("python3");
        program.args(["-c", REDIS_CLIENT]).arg(at.with_extension("redis")).arg(what);
        program
    }
}

impl Database for Redis {
    fn open(&mut self, at: &Path) {
        let mut program = client("redis-server");
        program.args(["--port", "0", "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--unixsocket"]);
        program.arg(at.with_extension("redis")).arg("--dir").arg(at);
        let mut program = if self.is_direct { direct(&program, &[]) } else { program };
        program.stdout(Stdio::piped());
        let mut child = program.spawn().expect("redis-server starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut message = Vec::new();
        let is_ready = lines.map_while(Result::ok).any(|line| {
            message.push(line);
            message.last().is_some_and(|line| line.contains("ready to accept connections at"))
        });
        assert!(is_ready, "redis-server: {message:?}");
        self.child = Some(child);
    }

    fn writer(&self, at: &Path) -> Command {
        Self::client(at, "write")
    }

    fn largest(&self, at: &Path) -> u64 {
        run(&mut Self::client(at, "read")).trim().parse().expect("a number")
    }

    fn close(&mut self) {
        if let Some(mut child) = self.child.take() {
            // The server may have exited by itself, because it can no longer append.
            let _ = child.kill();
            child.wait().expect("reaped");
        }
    }
}

struct Postgres {
    programs: PathBuf,
    child: Option<Child>,
}

impl Postgres {
    fn found() -> Option<Self> {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("bin")).find(|bin| bin.join("initdb").is_file());
        if programs.is_none() {
            println!("skipped: this machine has no PostgreSQL server");
        }
        programs.map(|programs| Self { programs, child: None })
    }

    /// Returns a command for a PostgreSQL program that runs as PostgreSQL's user.
    fn program(&self, name: &str) -> Command {
        let mut program = client("setpriv");
        program.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(self.programs.join(name));
        program.current_dir("/").env("LC_ALL", "C");
        program
    }

    fn psql(&self, at: &Path) -> Command {
        let mut program = self.program("psql");
        program.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-d", "postgres", "-h"]).arg(at.with_extension("sockets"));
        program
    }
}

impl Database for Postgres {
    fn open(&mut self, at: &Path) {
        let (data, sockets) = (at.join("data"), at.with_extension("sockets"));
        if !data.exists() {
            for folder in [&data, &sockets] {
                fs::create_dir_all(folder).expect("made");
                run(client("chown").arg("postgres:postgres").arg(folder));
            }
            run(self.program("initdb").args(["--no-locale", "--no-sync", "-A", "trust", "-D"]).arg(&data));
        }
        let mut program = self.program("postgres");
        program.arg("-D").arg(&data).arg("-k").arg(&sockets);
        program.args(["-c", "listen_addresses=", "-c", "shared_buffers=1MB", "-c", "logging_collector=off"]);
        let mut child = program.stderr(Stdio::piped()).spawn().expect("postgres starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines().map_while(Result::ok);
        let mut message = Vec::new();
        let is_ready = lines.by_ref().any(|line| {
            message.push(line);
            message.last().is_some_and(|line| line.contains("ready to accept connections"))
        });
        assert!(is_ready, "postgres: {message:?}");
        // A thread reads the rest of the output, so that the server never waits for a reader.
        std::thread::spawn(move || lines.for_each(drop));
        self.child = Some(child);
        run(self.psql(at).args(["-c", "create table if not exists t(i int primary key, b text)"]));
    }

    fn writer(&self, at: &Path) -> Command {
        let first = self.largest(at) + 1;
        let psql = format!("{:?}", self.psql(at));
        let commits = format!(
            "i={first}; while :; do echo \"insert into t values($i, repeat('$i', 20));\"; echo \"\\\\echo $i\"; \
             i=$((i + 1)); done | ({psql})"
        );
        let mut program = client("bash");
        program.arg("-c").arg(commits);
        program
    }

    fn largest(&self, at: &Path) -> u64 {
        let wrong = "select count(*) from t where b <> repeat(i::text, 20)";
        assert_eq!(run(self.psql(at).args(["-c", wrong])).trim(), "0");
        let both = run(self.psql(at).args(["-c", "select count(*), coalesce(max(i), 0) from t"]));
        let (count, largest) = both.trim().split_once('|').expect("two numbers");
        assert_eq!(count, largest, "one is missing");
        largest.parse().expect("a number")
    }

    fn close(&mut self) {
        if let Some(mut child) = self.child.take() {
            // SIGQUIT ends the server at once with all its processes, so no process writes any more.
            if child.try_wait().is_ok_and(|ended| ended.is_none()) {
                signal(child.id(), "QUIT");
            }
            wait(&mut child, Duration::from_secs(30)).expect("postgres ends");
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.close();
    }
}

#[test]
fn sqlite_with_a_write_ahead_log_keeps_its_commits_through_kill_rounds() {
    kill_rounds(&mut Sqlite("wal"), &[]);
}

#[test]
fn sqlite_with_a_journal_keeps_its_commits_through_kill_rounds() {
    kill_rounds(&mut Sqlite("delete"), &[]);
}

#[test]
fn sqlite_under_the_write_back_cache_keeps_its_commits_through_kill_rounds() {
    kill_rounds(&mut Sqlite("wal"), &["--cached"]);
}

#[test]
fn sqlite_with_a_write_ahead_log_keeps_its_commits_directly_through_kill_rounds() {
    kill_rounds(&mut Direct(Sqlite("wal")), &[]);
}

#[test]
fn sqlite_with_a_journal_keeps_its_commits_directly_through_kill_rounds() {
    kill_rounds(&mut Direct(Sqlite("delete")), &[]);
}

#[test]
fn redis_keeps_its_commits_directly_through_kill_rounds() {
    kill_rounds(&mut Redis { child: None, is_direct: true }, &[]);
}

#[test]
fn redis_keeps_its_commits_through_kill_rounds() {
    kill_rounds(&mut Redis::default(), &[]);
}

#[test]
fn postgres_keeps_its_commits_through_kill_rounds() {
    if let Some(mut postgres) = Postgres::found() {
        kill_rounds(&mut postgres, &[]);
    }
}
