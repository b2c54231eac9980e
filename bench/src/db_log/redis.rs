//! Redis with its append-only file, measured by its own benchmark.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use super::places::DatabasePlaces;
use super::{CommitPlan, Committers, NOTHING, RUN, STRICT, committer};
use crate::child_process::{ChildProcess, ProcessEnding};
use crate::ferrite::under_run;
use crate::{Result, program};

/// SETs before those that are measured, at most: enough for `ferrite run` to acquire its lease. Each slice starts a
/// server of its own, which a user does once.
const FIRST_SETS: u64 = 2000;
/// The subject without an append-only file.
pub const WITHOUT: &str = "no log";

/// The subjects with so many clients, or why the case is left out.
pub fn committers(places: &DatabasePlaces, plan: CommitPlan, clients: u64) -> Committers<'_> {
    if ["redis-server", "redis-benchmark", "redis-cli"].iter().any(|name| program::find(name).is_none()) {
        return Ok(Err("it needs redis-server and redis-tools".into()));
    }
    if places.synced.get(STRICT).is_none() {
        return Ok(Err("nothing can be mounted".into()));
    }
    let memory = places.memory.folder("redis")?;
    let socket = places.memory.path("redis.sock");
    let plain = |name, home: &Path, appendfsync| (name, RedisSetup { ferrite: None, home: home.into(), appendfsync });
    let mut all: Vec<_> = places.synced.entries.iter().map(|(name, home)| plain(*name, home, "always")).collect();
    all.extend(places.run.clone().map(|(ferrite, home)| {
        let ferrite = Some(ferrite);
        (RUN, RedisSetup { ferrite, home, appendfsync: "always" })
    }));
    all.extend([plain(NOTHING, &memory, "no"), plain(WITHOUT, &memory, "")]);
    let subject = |(name, setup): (&'static str, RedisSetup)| {
        let socket = socket.clone();
        committer(name, plan, move |count| {
            let server = RedisServer::start(&setup, &socket)?;
            server.benchmark(clients, if setup.ferrite.is_some() { FIRST_SETS } else { FIRST_SETS.min(count) })?;
            server.benchmark(clients, count)
        })
    };
    Ok(Ok(all.into_iter().map(subject).collect()))
}

/// The settings of a server.
struct RedisSetup {
    /// The program whose `ferrite run` runs the server, if any.
    ferrite: Option<PathBuf>,
    /// The folder of the append-only file.
    home: PathBuf,
    /// Redis's setting of this name; empty for no append-only file.
    appendfsync: &'static str,
}

/// A server that answers. Dropped, it ends.
struct RedisServer<'a> {
    _process: ChildProcess,
    socket: &'a Path,
}

impl<'a> RedisServer<'a> {
    fn start(setup: &RedisSetup, socket: &'a Path) -> Result<Self> {
        let _ = std::fs::remove_file(socket);
        let redis = program::find("redis-server").unwrap_or_default();
        let mut command = setup.ferrite.as_deref().map_or_else(|| Command::new("env"), under_run);
        command.arg(&redis).args(["--port", "0", "--save", "", "--auto-aof-rewrite-percentage", "0", "--unixsocket"]);
        command.arg(socket).arg("--dir").arg(&setup.home);
        if setup.appendfsync.is_empty() {
            command.args(["--appendonly", "no"]);
        } else {
            command.args(["--appendonly", "yes", "--appendfsync", setup.appendfsync]);
        }
        command.stderr(Stdio::null());
        let process = ChildProcess::start_serving("redis-server", &mut command, ProcessEnding::Interrupt, || {
            let pong = program::output(program::command("redis-cli").arg("-s").arg(socket).arg("ping"));
            Ok(pong.is_ok_and(|answer| answer.trim() == "PONG").then_some(()))
        })?;
        Ok(Self { _process: process, socket })
    }

    /// SETs of 100 bytes a second.
    fn benchmark(&self, clients: u64, count: u64) -> Result<f64> {
        let mut command = program::command("redis-benchmark");
        let (start, count) = (Instant::now(), count.max(clients));
        let (clients, requests) = (clients.to_string(), count.to_string());
        command.arg("-s").arg(self.socket).args(["--csv", "-t", "set", "-d", "100", "-r", "100000"]);
        let output = program::output(command.args(["-c", &clients, "-n", &requests]))?;
        let rate = sets_per_second(&output).ok_or_else(|| program::strange("redis-benchmark", &output))?;
        // The benchmark prints no finite rate for less than a millisecond.
        Ok(if rate.is_finite() { rate } else { count as f64 / start.elapsed().as_secs_f64() })
    }
}

/// The rate that the benchmark prints as comma-separated values.
fn sets_per_second(output: &str) -> Option<f64> {
    let line = output.lines().find(|line| line.starts_with("\"SET\""))?;
    line.split(',').nth(1)?.trim_matches('"').parse().ok()
}

#[cfg(test)]
mod tests;
