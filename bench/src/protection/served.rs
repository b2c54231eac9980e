//! The disk served over NBD beside other servers of memory, on Unix sockets, by the same client.

use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::Guard;

use super::ProtectionScale;
use super::copy_load::{CopyLoad, CopyPlaces};
use super::filled_disk::{self, FILL_BYTES, FilledDisk};
use crate::copy_buffer::CopyBuffer;
use crate::ferrite::{self, OURS};
use crate::load_client::{self, LoadClient, RequestVerb};
use crate::nbd_server::{self, NBDKIT, NbdServer, QEMU};
use crate::report::rows;
use crate::rounds::{BenchSubject, Series};
use crate::scratch::Scratch;
use crate::session::{BenchSession, Race};
use crate::void_disk::{self, VoidDisk};
use crate::{Error, Result};

/// Our server over a disk that copies nothing: the bound of any server with this socket and client.
pub const BOUND: &str = "(copies nothing)";

/// The loads. Those in sequence come first, on a disk that was filled in sequence, because random writes of whole sectors
/// scatter its blocks.
pub fn loads() -> impl Iterator<Item = CopyLoad> {
    let small = [1, 32].into_iter().map(|depth| (true, 4 << 10, depth));
    let large = [1, 8].into_iter().map(|depth| (false, 256 << 10, depth));
    let loads = large.chain(small);
    loads.flat_map(|(random, bytes, depth)| [false, true].map(|writes| CopyLoad { writes, random, bytes, depth }))
}

/// The name of the case of `load`.
pub fn case(load: &CopyLoad) -> String {
    format!("NBD {}", load.name())
}

/// A server, and a connection to it.
struct ConnectedServer {
    client: LoadClient,
    server: NbdServer,
}

/// Measures every load.
pub fn measure(session: &mut BenchSession<'_>, scale: &ProtectionScale) -> Result<()> {
    let loads = session.wanted(loads(), case);
    if loads.is_empty() {
        return Ok(());
    }
    session.announce("starting servers")?;
    let scratch = Scratch::new(&session.options.place)?;
    let mut all_connected = start(session, scale, &scratch)?;
    all_connected.iter().try_for_each(fill)?;
    for load in &loads {
        let name = case(load);
        let payload = CopyBuffer::new(load.bytes as usize);
        let time = Duration::from_millis(scale.served_slice_ms);
        let subject = |connected| {
            let (connected, payload): (&mut ConnectedServer, &CopyBuffer) = (connected, &payload);
            BenchSubject::new(connected.server.name, move |seed| connected.slice(load, payload, seed, time))
        };
        let (unit, rounds, slice_ms) = ("MB/s", scale.served_rounds, scale.served_slice_ms);
        let race = Race { case: &name, unit, rounds, slice_ms, beside: "" };
        let series = session.rounds(&race, all_connected.iter_mut().map(subject).collect())?;
        session.report.rows.extend(rows(&name, unit, &series, better_peer(&series)));
    }
    Ok(())
}

impl ConnectedServer {
    /// MB/s of the requests of `load` in about `time`.
    fn slice(&mut self, load: &CopyLoad, payload: &CopyBuffer, seed: u64, time: Duration) -> Result<f64> {
        let mut places = CopyPlaces::new(load, self.client.size(), seed);
        let verb = if load.writes { RequestVerb::Write } else { RequestVerb::Read };
        let load = load_client::RequestLoad { verb, payload: payload.bytes(), depth: load.depth, time };
        let (done, took) = self.client.run(&load, || places.next()).map_err(|why| self.server.failed(why))?;
        Ok(done as f64 * payload.bytes().len() as f64 / 1e6 / took.as_secs_f64())
    }
}

/// The faster of the peers, or our own server if there is no peer.
pub(super) fn better_peer(series: &[Series]) -> &Series {
    let peers = series.iter().filter(|series| [NBDKIT, QEMU].contains(&series.name.as_str()));
    peers.max_by(|one, other| one.median().total_cmp(&other.median())).unwrap_or(&series[0])
}

fn start(session: &mut BenchSession<'_>, scale: &ProtectionScale, scratch: &Scratch) -> Result<Vec<ConnectedServer>> {
    let bytes = scale.served_bytes;
    let ours = match &session.options.ferrite {
        Some(program) => ferrite::serve(program, scratch, bytes + bytes / 16 + (16 << 20), bytes)?,
        None => {
            let stage = FilledDisk::build(&session.options.place, bytes)?;
            NbdServer::here(OURS, stage.whole(Guard::best())?, &scratch.path("ours"))?
        }
    };
    let void = VoidDisk::new(bytes, scratch.file("lent", void_disk::LENT_BYTES)?)?;
    let mut servers = vec![ours, NbdServer::here(BOUND, Arc::new(void), &scratch.path("void"))?];
    servers.extend(nbd_server::peers(session, scratch, bytes)?);
    servers.into_iter().map(|server| Ok(ConnectedServer { client: server.connect()?, server })).collect()
}

/// Fills the disk and reads some of it back, so that no timed request touches a page first.
fn fill(connected: &ConnectedServer) -> Result<()> {
    let server = &connected.server;
    if server.name == BOUND {
        return Ok(());
    }
    let disk = server.disk()?;
    filled_disk::fill(&disk)?;
    if filled_disk::is_filled(&disk, connected.client.size() - 2 * FILL_BYTES as u64, FILL_BYTES)? {
        return Ok(());
    }
    Err(Error::server(server.name, "it reads other data than was written"))
}
