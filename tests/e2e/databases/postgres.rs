//! PostgreSQL, driven by psql.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Database;
use super::recipe::Recipe;
use crate::programs::client;
use crate::server::run;

/// A PostgreSQL server, and the folder of its socket.
#[derive(Default)]
pub struct Postgres {
    child: Option<Child>,
    sockets: PathBuf,
}

impl Postgres {
    fn psql(&self) -> Command {
        let mut psql = client("psql");
        psql.args(["-qAtX", "-v", "ON_ERROR_STOP=1", "-U", "postgres", "-h"]).arg(&self.sockets).arg("postgres");
        psql
    }

    fn ask(&self, statement: &str) -> String {
        run(self.psql().args(["-c", statement])).trim().to_owned()
    }
}

impl Database for Postgres {
    fn make(&mut self, recipe: &Recipe) {
        self.sockets = recipe.folder.clone();
        recipe.run("PostgreSQL", 0);
        self.start(recipe);
        self.ask("create table t(n bigint primary key, text text)");
        // If PostgreSQL finds no space for its log, it exits and cannot start again.
        let most: u64 = self.ask("select pg_size_bytes(current_setting('max_wal_size'))").parse().expect("bytes");
        let free = run(client("df").args(["--output=avail", "-B1"]).arg(&recipe.mount));
        let free: u64 = free.lines().last().and_then(|line| line.trim().parse().ok()).expect("bytes");
        assert!(free >= 2 * most, "{free} bytes are free, for {most} of the log and as much again");
    }

    fn start(&mut self, recipe: &Recipe) {
        if self.child.is_some() {
            return;
        }
        // With `mmap`, a killed server leaves its shared memory in its own folder, and not in /dev/shm.
        let more = format!("-c listen_addresses= -c dynamic_shared_memory_type=mmap -k {}", self.sockets.display());
        let until = Instant::now() + Duration::from_secs(120);
        loop {
            let child = self.child.get_or_insert_with(|| recipe.start("PostgreSQL", 1, ("postgres", &more)));
            // Children of the killed server may still run, and then the new server refuses to start.
            if child.try_wait().expect("a child of ours").is_some() {
                self.child = None;
            } else if self.psql().args(["-c", "select 1"]).output().is_ok_and(|output| output.status.success()) {
                return;
            }
            assert!(Instant::now() < until, "postgres does not answer");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn commit_until_killed(&mut self, from: u64, after: Duration, kill_more: &mut dyn FnMut()) -> u64 {
        let mut psql = self.psql();
        psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut psql = psql.spawn().expect("psql starts");
        let (mut stdin, stdout) =
            (psql.stdin.take().expect("piped"), BufReader::new(psql.stdout.take().expect("piped")));
        let last = std::thread::scope(|scope| {
            scope.spawn(move || {
                // psql runs one statement at a time: psql reads the next one after the answer.
                (from..from + 5000).all(|n| {
                    writeln!(stdin, "insert into t values({n}, repeat('{n}', {n} % 300 + 1)) returning n;").is_ok()
                })
            });
            let reader = scope.spawn(move || stdout.lines().map_while(Result::ok).last());
            // The client needs time to connect.
            std::thread::sleep(Duration::from_millis(30) + 2 * after);
            kill_more();
            self.kill();
            reader.join().expect("the reader ends")
        });
        let _ = psql.wait();
        last.map_or(from - 1, |line| line.parse().unwrap_or_else(|_| panic!("psql says {line}")))
    }

    fn count(&mut self) -> u64 {
        let found =
            self.ask("select count(*), coalesce(max(n), 0) from t where text = repeat(n::text, (n % 300)::int + 1)");
        let (count, max) = found.split_once('|').unwrap_or_else(|| panic!("{found}"));
        assert_eq!(count, max, "commits are missing before the last");
        count.parse().expect("a number")
    }

    /// Kills the server and its children, which have process groups of their own.
    fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        let all = family(child.id());
        for pid in &all {
            if fs::metadata(format!("/proc/{pid}")).is_ok() {
                let _ = client("kill").args(["-KILL", &pid.to_string()]).output();
            }
        }
        child.wait().expect("reaped");
    }
}

/// Returns a process and all its descendants.
fn family(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while next < all.len() {
        let children = format!("/proc/{0}/task/{0}/children", all[next]);
        let children = fs::read_to_string(children).unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    all
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.kill();
    }
}
