//! Redis with its append-only file, measured by its own benchmark.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::field::Field;
use super::{NOTHING, Plan, RUN, STRICT, Speed};
use crate::options::Options;
use crate::{Error, Result, program};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// SETs before those that are measured, at most: enough for `ferrite run` to have its lease. A server that a user starts
/// once would have it after a moment; here each slice has a server of its own.
const FIRST_SETS: u64 = 2000;
/// In memory alone: no append-only file.
pub const WITHOUT: &str = "no log";

type Racers<'a> = Result<std::result::Result<Vec<(&'static str, Speed<'a>)>, String>>;

/// With one client.
pub fn racers_alone<'a>(field: &'a Field, _: &Options, _: Plan) -> Racers<'a> {
    racers(field, 1)
}

/// With fifty.
pub fn racers_many<'a>(field: &'a Field, _: &Options, _: Plan) -> Racers<'a> {
    racers(field, 50)
}

fn racers(field: &Field, clients: u64) -> Racers<'_> {
    if ["redis-server", "redis-benchmark", "redis-cli"].iter().any(|name| program::find(name).is_none()) {
        return Ok(Err("it needs redis-server and redis-tools".into()));
    }
    if !field.places.iter().any(|(name, _)| *name == STRICT) {
        return Ok(Err("nothing can be mounted".into()));
    }
    let memory = field.memory.path("redis");
    std::fs::create_dir_all(&memory).map_err(Error::io("making a folder"))?;
    let socket = field.memory.path("redis.sock");
    let alone = |name, home, appendfsync| (name, Way { ferrite: None, home, appendfsync });
    let places = field.places.iter().map(|(name, home)| alone(*name, home.clone(), "always"));
    let run = field.run.clone().map(|(ferrite, home)| {
        let ferrite = Some(ferrite);
        (RUN, Way { ferrite, home, appendfsync: "always" })
    });
    let others = [alone(NOTHING, memory.clone(), "no"), alone(WITHOUT, memory, "")];
    let speed = |(name, way): (&'static str, Way)| {
        let socket = socket.clone();
        let run = move |count| {
            let server = Server::start(&way, &socket)?;
            server.benchmark(clients, if way.ferrite.is_some() { FIRST_SETS } else { FIRST_SETS.min(count) })?;
            server.benchmark(clients, count)
        };
        (name, Box::new(run) as Speed<'_>)
    };
    Ok(Ok(places.chain(run).chain(others).map(speed).collect()))
}

/// How a server is started.
struct Way {
    /// What runs it, where it stores by itself.
    ferrite: Option<PathBuf>,
    home: PathBuf,
    /// Nothing: no log.
    appendfsync: &'static str,
}

struct Server<'a> {
    child: Child,
    socket: &'a Path,
}

impl<'a> Server<'a> {
    fn start(way: &Way, socket: &'a Path) -> Result<Self> {
        let _ = std::fs::remove_file(socket);
        let redis = program::find("redis-server").unwrap_or_default();
        let mut command = match &way.ferrite {
            Some(ferrite) => Command::new(ferrite),
            None => Command::new(&redis),
        };
        if way.ferrite.is_some() {
            command.args(["run", "--"]).arg(&redis);
        }
        command.args(["--port", "0", "--save", "", "--auto-aof-rewrite-percentage", "0", "--unixsocket"]).arg(socket);
        command.arg("--dir").arg(&way.home);
        if way.appendfsync.is_empty() {
            command.args(["--appendonly", "no"]);
        } else {
            command.args(["--appendonly", "yes", "--appendfsync", way.appendfsync]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self { child: child.map_err(Error::io("starting redis-server"))?, socket };
        let start = Instant::now();
        while !server.client(&["ping"]).is_ok_and(|said| said.trim() == "PONG") {
            if start.elapsed() > PATIENCE {
                return Err(Error::Server { who: "redis-server".into(), what: "it does not start".into() });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    fn client(&self, words: &[&str]) -> Result<String> {
        let client = program::find("redis-cli").unwrap_or_default();
        program::output(Command::new(client).arg("-s").arg(self.socket).args(words))
    }

    /// SETs of 100 bytes a second.
    fn benchmark(&self, clients: u64, count: u64) -> Result<f64> {
        let mut command = Command::new(program::find("redis-benchmark").unwrap_or_default());
        let (start, count) = (Instant::now(), count.max(clients));
        let (clients, requests) = (clients.to_string(), count.to_string());
        command.arg("-s").arg(self.socket).args(["--csv", "-t", "set", "-d", "100", "-r", "100000"]);
        let said = program::output(command.args(["-c", &clients, "-n", &requests]))?;
        let line = said.lines().find(|line| line.starts_with("\"SET\""));
        let speed: Option<f64> = line.and_then(|line| line.split(',').nth(1)?.trim_matches('"').parse().ok());
        // Of what took no millisecond it knows no speed.
        let speed =
            speed.map(|speed| if speed.is_finite() { speed } else { count as f64 / start.elapsed().as_secs_f64() });
        speed.ok_or_else(|| Error::Server { who: "redis-benchmark".into(), what: format!("it says {said}") })
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        let ended = self.client(&["shutdown", "nosave"]);
        if ended.is_err() && self.child.try_wait().is_ok_and(|status| status.is_none()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
