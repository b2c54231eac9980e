//! The log itself: records, each durable before the next, beside the bare store and fence.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme, Span};
use ferrite_pool::{Format, Pool};
use ferrite_wal::{Durability, SegmentDirectory, Wal, WalSpec};

use super::places::DatabasePlaces;
use super::{CommitPlan, OWN, RELAXED, STRICT};
use crate::objects::peers::{self, PeerProcess};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};
use crate::{Error, Result};

/// The copy of the log to a mapping like its own, and the same fence.
pub const BARE: &str = "bare store and fence";
/// Records that share a fence.
pub const GROUP: &str = "ferrite, 16 a fence";
const CAPACITY_BYTES: u64 = 32 << 20;
const POOL_BYTES: u64 = 64 << 20;
const SLICE_MS: u64 = 20;
const PEER_MS: u64 = 5;

/// Measures records of 64 and of 1024 bytes.
pub fn run(session: &mut BenchSession<'_>, places: &DatabasePlaces, plan: CommitPlan) -> Result<()> {
    for bytes in [64, 1024] {
        if session.options.wants(&case(bytes)) {
            // Peers make durable updates of 64 bytes.
            let peers = if bytes == 64 { peers::start(session, &places.memory)? } else { Vec::new() };
            measure(session, places, plan, bytes, peers)?;
        }
    }
    Ok(())
}

fn case(bytes: usize) -> String {
    format!("append {bytes} B")
}

fn measure(
    session: &mut BenchSession<'_>,
    places: &DatabasePlaces,
    plan: CommitPlan,
    bytes: usize,
    peers: Vec<PeerProcess>,
) -> Result<()> {
    let name = format!("appends-{bytes}");
    let map = |file: File| {
        Mapped::map(file, &MapOptions { guard: Guard::best(), name: name.clone(), ..MapOptions::default() })
    };
    let memory: Arc<dyn Memory> = Arc::new(map(places.memory.file(&name, POOL_BYTES)?)?);
    Pool::create(&*memory, &Format { uuid: *b"bench of appends", boot_id: [0; 16] })?;
    let (pool, _) = Pool::open(Arc::clone(&memory), [0; 16])?;
    let folder =
        SegmentDirectory::new(&places.memory.path(&format!("{name}-drained"))).map_err(Error::io("making a folder"))?;
    let spec = WalSpec { capacity_bytes: CAPACITY_BYTES };
    let wal = &Wal::create(&Arc::new(pool), "log", &spec, Box::new(folder))?;
    let bare = &map(places.memory.file(&format!("{name}-bare"), CAPACITY_BYTES)?)?;
    // The first touch of a page costs more than a hundred stores to it. The log touches its pages when it is made.
    bare.reserve(Span::new(0, CAPACITY_BYTES))?;
    bare.populate(Span::new(0, CAPACITY_BYTES))?;
    let count = if plan.slice > 0.0 { 10_000 } else { 64 };
    let payload = &vec![7_u8; bytes];
    let mut at = 0;
    let mut subjects = vec![
        BenchSubject::new(BARE, move |_| {
            timed(count, || {
                at = (at + bytes as u64) % (CAPACITY_BYTES - bytes as u64) / 64 * 64;
                bare.store(at, payload, Scheme::Nt);
                bare.fence();
                Ok(())
            })
        }),
        BenchSubject::new(STRICT, move |_| append(wal, count, || wal.append(payload, Durability::Strict).map(drop))),
        BenchSubject::new(RELAXED, move |_| append(wal, count, || wal.append(payload, Durability::Relaxed).map(drop))),
        BenchSubject::new(GROUP, move |_| {
            let group = [payload.as_slice(); 16];
            let each = append(wal, count / 16, || wal.append_many(&group, Durability::Strict).map(drop))?;
            Ok(each / 16.0)
        }),
    ];
    subjects.extend(peers.into_iter().map(|mut peer| BenchSubject::new(peer.name, move |_| peer.update_ns(PEER_MS))));
    if let Some(home) = places.synced.get(OWN) {
        let mut file = File::create(home.join(&name)).map_err(Error::io("making a file on the disk"))?;
        subjects.push(BenchSubject::new(OWN, move |_| {
            timed(plan.trial, || {
                file.write_all(payload).and_then(|()| file.sync_data()).map_err(Error::io("appending"))
            })
        }));
    }
    let (case, rounds) = (case(bytes), 4 * plan.rounds + 1);
    session.race(&Race { case: &case, unit: "ns", rounds, slice_ms: SLICE_MS, beside: BARE }, subjects).map(drop)
}

/// Nanoseconds a call of `one`; the log is emptied afterwards.
fn append(wal: &Wal, count: u64, mut one: impl FnMut() -> ferrite_wal::Result<()>) -> Result<f64> {
    let each = timed(count, || Ok(one()?))?;
    let end = wal.commit()?;
    wal.truncate(end)?;
    Ok(each)
}

fn timed(count: u64, mut one: impl FnMut() -> Result<()>) -> Result<f64> {
    let start = Instant::now();
    for _ in 0..count {
        one()?;
    }
    Ok(start.elapsed().as_nanos() as f64 / count as f64)
}
