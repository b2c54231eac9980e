//! Redis with its append-only file, measured by its own benchmark.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::field::Field;
use super::{NOTHING, Plan, STRICT, Speed};
use crate::options::Options;
use crate::{Error, Result, program};

/// How long it may take to start.
const PATIENCE: Duration = Duration::from_secs(30);
/// In memory alone: no append-only file.
const WITHOUT: &str = "no log";

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
    let places = field.places.iter().map(|(name, home)| (*name, home.clone(), "always"));
    let places = places.chain([(NOTHING, memory.clone(), "no"), (WITHOUT, memory, "")]);
    let speed = |(name, home, appendfsync): (&'static str, std::path::PathBuf, &'static str)| {
        let socket = socket.clone();
        let run = move |count| {
            let server = Server::start(&home, &socket, appendfsync)?;
            server.benchmark(clients, count)
        };
        (name, Box::new(run) as Speed<'_>)
    };
    Ok(Ok(places.map(speed).collect()))
}

struct Server<'a> {
    child: Child,
    socket: &'a Path,
}

impl<'a> Server<'a> {
    /// With its files in `home`; no log where `appendfsync` is empty.
    fn start(home: &Path, socket: &'a Path, appendfsync: &str) -> Result<Self> {
        let _ = std::fs::remove_file(socket);
        let mut command = Command::new(program::find("redis-server").unwrap_or_default());
        command.args(["--port", "0", "--save", "", "--auto-aof-rewrite-percentage", "0", "--unixsocket"]).arg(socket);
        command.arg("--dir").arg(home);
        if appendfsync.is_empty() {
            command.args(["--appendonly", "no"]);
        } else {
            command.args(["--appendonly", "yes", "--appendfsync", appendfsync]);
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
