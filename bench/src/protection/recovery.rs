//! The time until a pool whose owner was killed under load is served again: from exec to the first reply.

use std::time::{Duration, Instant};

use super::ProtectionScale;
use super::copy_load::{CopyLoad, CopyPlaces};
use super::filled_disk;
use crate::copy_buffer::CopyBuffer;
use crate::ferrite::{self, OURS};
use crate::load_client::{self, RequestVerb};
use crate::nbd_server::NbdServer;
use crate::report::rows;
use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::{Error, Result};

/// The case.
pub const CASE: &str = "recovery of a pool 90 % full that was killed under load";
/// The limit that the time is compared with, in milliseconds.
const LIMIT_MS: f64 = 100.0;
/// Milliseconds of load before the kill.
const LOAD_MS: u64 = 300;
const BLOCK: usize = 4096;

/// Measures recovery, if there is the program.
pub fn measure(session: &mut BenchSession<'_>, scale: &ProtectionScale) -> Result<()> {
    let options = session.options;
    let Some(program) = options.ferrite.as_ref().filter(|_| options.wants(CASE)) else { return Ok(()) };
    session.announce("filling a pool")?;
    let scratch = Scratch::new(&options.place)?;
    // A disk has a sixteenth of spare blocks; with them it takes nine tenths of the pool.
    let disk_bytes = scale.killed_bytes / 1024 * 868;
    let serve = || ferrite::serve(program, &scratch, scale.killed_bytes, disk_bytes);
    let mut server = serve()?;
    filled_disk::fill(&server.disk()?)?;
    let mut series = Series { name: OURS.into(), values: Vec::new() };
    for kill in 0..scale.kills as u64 {
        kill_under_load(server, kill)?;
        let begun = Instant::now();
        server = serve()?;
        let is_whole = filled_disk::is_filled(&server.disk()?, 0, BLOCK)?;
        series.values.push(begun.elapsed().as_secs_f64() * 1e3);
        if !is_whole {
            return Err(Error::server(OURS, "it lost what was written before it was killed"));
        }
        session.step(CASE, LOAD_MS + 100)?;
    }
    let limit = Series { name: format!("limit of {LIMIT_MS} ms"), values: vec![LIMIT_MS; scale.kills] };
    session.report.rows.extend(rows(CASE, "ms", &[series], &limit));
    Ok(())
}

/// Kills `server` while random writes are in flight, and ensures that the load fails.
fn kill_under_load(server: NbdServer, seed: u64) -> Result<()> {
    let mut client = server.connect()?;
    let payload = CopyBuffer::new(BLOCK);
    let load = CopyLoad { writes: true, random: true, bytes: BLOCK as u64, depth: 32 };
    let mut places = CopyPlaces::new(&load, client.size(), seed);
    let load = load_client::RequestLoad {
        verb: RequestVerb::Write,
        payload: payload.bytes(),
        depth: load.depth,
        time: Duration::from_secs(3600),
    };
    std::thread::scope(|scope| {
        let loading = scope.spawn(move || client.run(&load, || places.next()).err());
        std::thread::sleep(Duration::from_millis(LOAD_MS));
        drop(server);
        match loading.join().expect("the load does not panic") {
            Some(_) => Ok(()),
            None => Err(Error::server(OURS, "the load ended by itself")),
        }
    })
}
