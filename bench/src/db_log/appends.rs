//! The log itself: records, each durable before the next, beside the bare store and fence.

use std::fs::File;
use std::io::Write;
use std::time::Duration;

use ferrite_memory::{Guard, Memory, Scheme};
use ferrite_wal::{Durability, SegmentDirectory, Wal, WalSpec};

use super::places::DatabasePlaces;
use super::{CommitPlan, OWN, RELAXED, STRICT};
use crate::objects::peers::{self, PeerProcess};
use crate::pool_tree::OpenPool;
use crate::rounds::{BenchSubject, mean_ns};
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
    let open_pool = OpenPool::new(&session.options.place, POOL_BYTES)?;
    let drained = places.memory.path(&format!("{name}-drained"));
    let folder = SegmentDirectory::new(&drained).map_err(Error::io("making a folder"))?;
    let spec = WalSpec { capacity_bytes: CAPACITY_BYTES };
    // The log touches its pages when it is made.
    let wal = &Wal::create(open_pool.pool(), "log", &spec, Box::new(folder))?;
    let bare = &places.memory.mapped(&format!("{name}-bare"), CAPACITY_BYTES, Guard::best())?;
    let count = if plan.slice > 0.0 { 10_000 } else { 64 };
    let payload = &vec![7_u8; bytes];
    let mut at = 0;
    let mut subjects = vec![
        BenchSubject::new(BARE, move |_| {
            mean_ns(Duration::ZERO, count, || {
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
            mean_ns(Duration::ZERO, plan.trial, || {
                file.write_all(payload).and_then(|()| file.sync_data()).map_err(Error::io("appending"))
            })
        }));
    }
    let (case, rounds) = (case(bytes), 4 * plan.rounds + 1);
    session.race(&Race { case: &case, unit: "ns", rounds, slice_ms: SLICE_MS, beside: BARE }, subjects).map(drop)
}

/// Nanoseconds a call of `one`; the log is emptied afterwards.
fn append(wal: &Wal, count: u64, mut one: impl FnMut() -> ferrite_wal::Result<()>) -> Result<f64> {
    let each = mean_ns(Duration::ZERO, count, || Ok(one()?))?;
    let end = wal.commit()?;
    wal.truncate(end)?;
    Ok(each)
}
