//! How soon a pool that was killed under load is served again: from exec to the first reply.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Scale;
use super::load::{Load, Places};
use super::served::OURS;
use crate::buffer::Buffer;
use crate::client::{self, Client, Verb};
use crate::options::{Options, Steps};
use crate::report::{Report, Row};
use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::server::Server;
use crate::{Error, Result};

/// The case.
pub const CASE: &str = "recovery of a pool 90 % full that was killed under load";
/// What the time is measured beside, in milliseconds.
const LIMIT_MS: f64 = 100.0;
/// How long it is under load before it is killed.
const LOAD_MS: u64 = 300;
const BLOCK: usize = 4096;

/// How the program is started.
pub struct Start<'a> {
    /// The program.
    pub ferrite: &'a Path,
    /// Where its pool lies.
    pub scratch: &'a Scratch,
    /// Bytes of the pool, if it is not there.
    pub pool_bytes: u64,
    /// Its disk, as `--disk` takes it.
    pub disk: &'a str,
}

/// Starts the program, as its users do, and waits until it answers.
pub fn start(start: &Start<'_>, name: &str) -> Result<Server> {
    let (pool, socket) = (start.scratch.path("pool"), start.scratch.path("ferrite"));
    let mut command = Command::new(start.ferrite);
    command.args([
        "up",
        "--no-attach",
        "--no-mount",
        "--size",
        &start.pool_bytes.to_string(),
        "--disk",
        start.disk,
        "--pool",
    ]);
    let server = Server::start(name, command.arg(pool).arg("--unix").arg(&socket), &socket)?;
    server.ok_or_else(|| Error::Server { who: start.ferrite.display().to_string(), what: "it is not there".into() })
}

/// Milliseconds it takes, about.
pub fn total_ms(scale: &Scale) -> u64 {
    (scale.kills as u64 + 1) * (LOAD_MS + 100)
}

/// Measures it; nothing without the program.
pub fn measure(options: &Options, scale: &Scale, steps: &mut Steps<'_>, report: &mut Report) -> Result<()> {
    let Some(ferrite) = options.ferrite.as_ref().filter(|_| options.wants(CASE)) else { return Ok(()) };
    steps.step("filling a pool", 0)?;
    let scratch = Scratch::new(&options.place)?;
    // With its sixteenth of spare blocks this is nine tenths of the pool.
    let disk = format!("disk={}", scale.killed_bytes / 1024 * 868);
    let how = Start { ferrite, scratch: &scratch, pool_bytes: scale.killed_bytes, disk: &disk };
    let mut server = start(&how, OURS)?;
    fill(&mut server.connect()?).map_err(|why| server.failed(why))?;
    let mut series = Series { name: OURS.into(), values: Vec::new() };
    for kill in 0..scale.kills as u64 {
        kill_under_load(server, kill)?;
        let begun = Instant::now();
        server = start(&how, OURS)?;
        let mut read = Buffer::new(BLOCK);
        read.bytes_mut().fill(0);
        server.connect()?.read(0, read.bytes_mut()).map_err(|why| server.failed(why))?;
        series.values.push(begun.elapsed().as_secs_f64() * 1e3);
        if read.bytes() != Buffer::new(BLOCK).bytes() {
            return Err(Error::Server {
                who: OURS.into(),
                what: "it lost what was written before it was killed".into(),
            });
        }
        steps.step(CASE, LOAD_MS + 100)?;
    }
    report.rows.push(row(&series));
    Ok(())
}

fn row(series: &Series) -> Row {
    let (low, high) = series.range();
    Row {
        case: CASE.into(),
        subject: series.name.clone(),
        unit: "ms",
        value: series.median(),
        beside: format!("limit of {LIMIT_MS} ms"),
        ratio: series.median() / LIMIT_MS,
        low: low / LIMIT_MS,
        high: high / LIMIT_MS,
    }
}

fn fill(client: &mut Client) -> std::io::Result<()> {
    let block = Buffer::new(BLOCK);
    let payload = block.bytes().repeat(64);
    let size = client.size();
    for at in (0..size).step_by(payload.len()) {
        client.write(at, &payload[..(size - at).min(payload.len() as u64) as usize])?;
    }
    Ok(())
}

/// Kills `server` while random writes are in flight. That the load then fails is what is wanted.
fn kill_under_load(server: Server, seed: u64) -> Result<()> {
    let mut client = server.connect()?;
    let payload = Buffer::new(BLOCK);
    let load = Load { writes: true, random: true, bytes: BLOCK as u64, depth: 32 };
    let mut places = Places::new(&load, client.size(), seed);
    let load = client::Load {
        verb: Verb::Write,
        payload: payload.bytes(),
        depth: load.depth,
        time: Duration::from_secs(3600),
    };
    std::thread::scope(|scope| {
        let loading = scope.spawn(move || client.run(&load, || places.next()).err());
        std::thread::sleep(Duration::from_millis(LOAD_MS));
        server.kill();
        match loading.join().expect("the load does not panic") {
            Some(_) => Ok(()),
            None => Err(Error::Server { who: OURS.into(), what: "the load ended by itself".into() }),
        }
    })
}
