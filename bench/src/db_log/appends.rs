//! The log itself: one record after the other, durable each, beside the bare store and fence.

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Scheme, Span};
use ferrite_pool::{Format, Pool};
use ferrite_wal::{Directory, Durability, Wal, WalSpec};

use super::field::Field;
use super::{OWN, Plan, RELAXED, STRICT};
use crate::objects::peers::{self, Peer};
use crate::rounds::{self, Subject};
use crate::session::Session;
use crate::{Error, Result};

/// The same copy to the same kind of mapping, and the same fence.
pub const BARE: &str = "bare store and fence";
/// Records that share a fence.
pub const GROUP: &str = "ferrite, 16 a fence";
const CAPACITY_BYTES: u64 = 32 << 20;
const POOL_BYTES: u64 = 64 << 20;
const SLICE_MS: u64 = 20;
const PEER_MS: u64 = 5;

/// Nanoseconds a record.
pub fn run(session: &mut Session<'_>, field: &Field, plan: Plan, notes: &mut Vec<String>) -> Result<()> {
    for bytes in [64_usize, 1024] {
        let case = format!("append {bytes} B");
        if session.options.wants(&case) {
            // Others' durable updates of as many bytes.
            let mut peers = if bytes == 64 { peers::start(&field.memory, notes)? } else { Vec::new() };
            measure(session, field, plan, (&case, bytes, &mut peers))?;
        }
    }
    Ok(())
}

fn measure(
    session: &mut Session<'_>,
    field: &Field,
    plan: Plan,
    (case, bytes, peers): (&str, usize, &mut [Peer]),
) -> Result<()> {
    let name = format!("appends-{bytes}");
    let map = |file: File| {
        Mapped::map(file, &MapOptions { guard: Guard::best(), name: name.clone(), ..MapOptions::default() })
    };
    let memory: Arc<dyn Memory> = Arc::new(map(field.memory.file(&name, POOL_BYTES)?)?);
    Pool::create(&*memory, &Format { uuid: *b"bench of appends", boot_id: [0; 16] })?;
    let (pool, _) = Pool::open(Arc::clone(&memory), [0; 16])?;
    let folder =
        Directory::new(&field.memory.path(&format!("{name}-drained"))).map_err(Error::io("making a folder"))?;
    let spec = WalSpec { capacity_bytes: CAPACITY_BYTES };
    let wal = &Wal::create(&Arc::new(pool), "log", &spec, Box::new(folder))?;
    let bare = &map(field.memory.file(&format!("{name}-bare"), CAPACITY_BYTES)?)?;
    // The first touch of a page costs more than a hundred stores to it; the log's pages are touched when it is made.
    bare.reserve(Span::new(0, CAPACITY_BYTES))?;
    bare.populate(Span::new(0, CAPACITY_BYTES))?;
    let count = if plan.slice > 0.0 { 10_000 } else { 64 };
    let payload = &vec![7_u8; bytes];
    let mut at = 0;
    let mut subjects = vec![
        Subject::new(BARE, move |_| {
            timed(count, || {
                at = (at + bytes as u64) % (CAPACITY_BYTES - bytes as u64) / 64 * 64;
                bare.store(at, payload, Scheme::Nt);
                bare.fence();
                Ok(())
            })
        }),
        Subject::new(STRICT, move |_| append(wal, count, || wal.append(payload, Durability::Strict).map(drop))),
        Subject::new(RELAXED, move |_| append(wal, count, || wal.append(payload, Durability::Relaxed).map(drop))),
        Subject::new(GROUP, move |_| {
            let group = [payload.as_slice(); 16];
            let each = append(wal, count / 16, || wal.append_many(&group, Durability::Strict).map(drop))?;
            Ok(each / 16.0)
        }),
    ];
    for peer in peers {
        subjects.push(Subject::new(peer.name, move |_| peer.update_ns(PEER_MS)));
    }
    if let Some((_, home)) = field.places.iter().find(|(name, _)| *name == OWN) {
        let mut file = File::create(home.join(&name)).map_err(Error::io("making a file on the disk"))?;
        subjects.push(Subject::new(OWN, move |_| {
            timed(plan.trial, || {
                file.write_all(payload).and_then(|()| file.sync_data()).map_err(Error::io("appending"))
            })
        }));
    }
    let steps = &mut session.steps;
    let series = rounds::run(&mut subjects, 4 * plan.rounds + 1, &mut || steps.step(case, SLICE_MS))?;
    super::report(session, case, "ns", &series, BARE);
    Ok(())
}

/// Nanoseconds a call, of a log that is emptied afterwards.
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
