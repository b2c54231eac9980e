//! The disk served over NBD beside other servers of memory, on Unix sockets, by the same client.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::Guard;

use super::Scale;
use super::load::{Load, Places};
use super::stage::Stage;
use crate::Result;
use crate::buffer::Buffer;
use crate::client::{self, Client, Verb};
use crate::options::{Options, Steps};
use crate::report::{Chart, Measure, Report, rows};
use crate::rounds::{self, Series, Subject};
use crate::scratch::Scratch;
use crate::server::Server;
use crate::void_disk::{self, VoidDisk};

/// The subject that is ours.
pub const OURS: &str = "ferrite";
/// Our server over a disk that copies nothing: what the socket and the client leave to gain for any server.
pub const BOUND: &str = "(copies nothing)";
/// The peers.
pub const PEERS: [&str; 2] = ["nbdkit memory", "qemu-nbd tmpfs"];

/// The loads. Those in sequence come first, on a disk that was filled in sequence: whole sectors at random places leave
/// its blocks scattered, which no peer's memory ever is.
pub fn loads() -> impl Iterator<Item = Load> {
    let small = [1, 32].into_iter().map(|depth| (true, 4 << 10, depth));
    let large = [1, 8].into_iter().map(|depth| (false, 256 << 10, depth));
    let loads = large.chain(small);
    loads.flat_map(|(random, bytes, depth)| [false, true].map(|writes| Load { writes, random, bytes, depth }))
}

/// The name of the case of `load`.
pub fn case(load: &Load) -> String {
    format!("NBD {}", load.name())
}

/// Milliseconds it takes, about.
pub fn total_ms(scale: &Scale) -> u64 {
    loads().count() as u64 * 4 * (scale.served_rounds as u64 + 1) * scale.served_slice_ms
}

/// A server, and a connection to it.
struct Rival {
    client: Client,
    server: Server,
}

/// Measures it.
pub fn measure(options: &Options, scale: &Scale, steps: &mut Steps<'_>, report: &mut Report) -> Result<()> {
    let loads: Vec<Load> = loads().filter(|load| options.wants(&case(load))).collect();
    if loads.is_empty() {
        return Ok(());
    }
    steps.step("starting servers", 0)?;
    let scratch = Scratch::new(&options.place)?;
    let stage = if options.ferrite.is_none() { Some(Stage::build(&options.place, scale.served_bytes)?) } else { None };
    let mut rivals = start(options, scale, &scratch, stage.as_ref())?;
    rivals.iter_mut().try_for_each(fill)?;
    for load in &loads {
        let name = case(load);
        let payload = Buffer::new(load.bytes as usize);
        let time = Duration::from_millis(scale.served_slice_ms);
        let mut subjects: Vec<Subject<'_>> = rivals
            .iter_mut()
            .map(|rival| Subject::new(rival.server.name.clone(), |seed| slice(rival, load, &payload, (seed, time))))
            .collect();
        let series = rounds::run(&mut subjects, scale.served_rounds, &mut || steps.step(&name, scale.served_slice_ms))?;
        report.rows.extend(rows(&name, "MB/s", &series, better_peer(&series)));
    }
    report.charts.push(Chart {
        title: "Served over NBD on a Unix socket, beside the better of nbdkit's memory plugin and qemu-nbd on tmpfs"
            .into(),
        measure: Measure::Ratio,
        cases: loads.iter().map(case).collect(),
        level: Some(1.3),
    });
    Ok(())
}

fn slice(rival: &mut Rival, load: &Load, payload: &Buffer, (seed, time): (u64, Duration)) -> Result<f64> {
    let mut places = Places::new(load, rival.client.size(), seed);
    let verb = if load.writes { Verb::Write } else { Verb::Read };
    let load = client::Load { verb, payload: payload.bytes(), depth: load.depth, time };
    let (done, took) = rival.client.run(&load, || places.next()).map_err(|why| rival.server.failed(why))?;
    Ok(done as f64 * payload.bytes().len() as f64 / 1e6 / took.as_secs_f64())
}

/// The faster of the peers; ourselves where there is none.
fn better_peer(series: &[Series]) -> &Series {
    let peers = series.iter().filter(|series| PEERS.contains(&series.name.as_str()));
    peers.max_by(|one, other| one.median().total_cmp(&other.median())).unwrap_or(&series[0])
}

fn start(options: &Options, scale: &Scale, scratch: &Scratch, stage: Option<&Stage>) -> Result<Vec<Rival>> {
    let bytes = scale.served_bytes;
    let mut servers = Vec::new();
    servers.extend(match (&options.ferrite, stage) {
        (Some(ferrite), _) => Some(start_ferrite(ferrite, scratch, bytes)?),
        (None, Some(stage)) => Some(Server::here(OURS, stage.disk(Guard::best(), false)?, &scratch.path("ours"))?),
        (None, None) => None,
    });
    let void = VoidDisk::new(bytes, scratch.file("lent", void_disk::LENT_BYTES)?)?;
    servers.push(Server::here(BOUND, Arc::new(void), &scratch.path("void"))?);
    let socket = scratch.path("nbdkit");
    let mut nbdkit = Command::new("nbdkit");
    nbdkit.args(["--foreground", "--exit-with-parent", "--unix"]).arg(&socket).args(["memory", &bytes.to_string()]);
    servers.extend(Server::start(PEERS[0], &mut nbdkit, &socket)?);
    scratch.file("image", bytes)?;
    let socket = scratch.path("qemu");
    let mut qemu = Command::new("qemu-nbd");
    qemu.args(["--format=raw", "--persistent", "--cache=writeback", "--socket"])
        .arg(&socket)
        .arg(scratch.path("image"));
    servers.extend(Server::start(PEERS[1], &mut qemu, &socket)?);
    servers.into_iter().map(|server| Ok(Rival { client: server.connect()?, server })).collect()
}

/// Starts the program as its users do, without a `/dev` node.
fn start_ferrite(ferrite: &Path, scratch: &Scratch, bytes: u64) -> Result<Server> {
    let pool_bytes = bytes + bytes / 16 + (16 << 20);
    let disk = format!("disk={bytes}");
    super::recovery::start(&super::recovery::Start { ferrite, scratch, pool_bytes, disk: &disk }, OURS)
}

/// Fills what `rival` serves, and reads some of it back, so that no page is touched first by what is timed.
fn fill(rival: &mut Rival) -> Result<()> {
    if rival.server.name == BOUND {
        return Ok(());
    }
    let payload = Buffer::new(256 << 10);
    let size = rival.client.size();
    let filled = (0..size).step_by(payload.bytes().len()).try_for_each(|at| {
        let len = (size - at).min(payload.bytes().len() as u64) as usize;
        rival.client.write(at, &payload.bytes()[..len])
    });
    filled.map_err(|why| rival.server.failed(why))?;
    let mut read = Buffer::new(payload.bytes().len());
    rival
        .client
        .read(size - 2 * payload.bytes().len() as u64, read.bytes_mut())
        .map_err(|why| rival.server.failed(why))?;
    if read.bytes() == payload.bytes() {
        return Ok(());
    }
    Err(crate::Error::Server {
        who: rival.server.name.clone(),
        what: "it reads something else than was written".into(),
    })
}
