//! The time until 4 KiB are durable, by the way in which a program's memory is.

use std::cell::RefCell;
use std::path::Path;

use super::GuestPlan;
use super::guest_case::{BARE, MSYNC};
use crate::Result;
use crate::region_work::{
    BenchGuest, GuestPool, LoadShape, MappedPeer, RegionKind, RegionLoad, RegionOrder, RegionWorker, frames_bytes,
};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The case.
pub const CASE: &str = "4 KiB made durable";
/// A para-virtual guest: persist and barrier.
pub const PARA: &str = "pv: persist, barrier";
/// A full-virtual guest: a store and a fence.
pub const FULL: &str = "hv: store, fence";
/// Bytes of the regions, all of which have frames.
const SIZE: u64 = 16 << 20;

/// Runs the case if the options ask for it.
pub fn measure(session: &mut BenchSession<'_>, plan: &GuestPlan, ferrite: &Path) -> Result<()> {
    if session.wanted([CASE], |case| *case).is_empty() {
        return Ok(());
    }
    session.announce(CASE)?;
    let place = &session.options.place;
    let load = LoadShape::new(RegionLoad::Fwr, 0);
    let new = BenchGuest { name: "g".into(), size: SIZE, pm_bytes: frames_bytes(SIZE, 100) };
    let (mut pools, mut peers, mut workers) = (Vec::new(), Vec::new(), Vec::new());
    for (name, kind) in [(BARE, RegionKind::Bare), (MSYNC, RegionKind::FileSync)] {
        let peer = MappedPeer::new(place, kind, SIZE)?;
        workers.push((name, RegionWorker::start(ferrite, name, peer.setup(load.clone()))?));
        peers.push(peer);
    }
    for (name, kind) in [(PARA, RegionKind::Para), (FULL, RegionKind::Full)] {
        let mut pool = GuestPool::new(place, std::slice::from_ref(&new))?;
        pool.release()?;
        workers.push((name, RegionWorker::start(ferrite, name, pool.setup(kind, &new, load.clone()))?));
        pools.push(pool);
    }
    let mut subjects = Vec::new();
    for (name, mut worker) in workers {
        worker.order(&RegionOrder::Fill)?;
        let worker = RefCell::new(worker);
        let nanos = plan.slice_ms * 1_000_000;
        let slice = move |_| Ok(worker.borrow_mut().order(&RegionOrder::Update { nanos })?.step_us());
        subjects.push(BenchSubject::new(name, slice));
    }
    let race = Race { case: CASE, unit: "us", rounds: plan.rounds.max(3), slice_ms: plan.slice_ms, beside: BARE };
    session.race(&race, subjects).map(drop)
}
