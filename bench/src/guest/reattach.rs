//! The time to open a pool and a guest whose process was killed under load, with all frames in use.

use std::path::Path;
use std::time::Duration;

use super::GuestPlan;
use crate::region_work::{
    BenchGuest, GuestPool, LoadShape, RegionKind, RegionLoad, RegionOrder, RegionWorker, frames_bytes,
};
use crate::report::rows;
use crate::rounds::Series;
use crate::session::BenchSession;
use crate::{Error, Result};

/// The case.
pub const CASE: &str = "open behind a kill";
/// The subject.
pub const SUBJECT: &str = "hv";
/// The limit that the time is compared with, in milliseconds.
const LIMIT_MS: f64 = 50.0;
/// Milliseconds until the process is killed.
const KILL_MS: u64 = 20;
/// Milliseconds that a kill is expected to take.
const EXPECTED_MS: u64 = 1500;

/// Runs the case if the options ask for it.
pub fn measure(session: &mut BenchSession<'_>, plan: &GuestPlan, ferrite: &Path) -> Result<()> {
    if session.wanted([CASE], |case| *case).is_empty() {
        return Ok(());
    }
    session.announce(CASE)?;
    let size = plan.killed_bytes;
    let new = BenchGuest { name: "g".into(), size, pm_bytes: frames_bytes(size, 100) };
    let mut pool = GuestPool::new(&session.options.place, std::slice::from_ref(&new))?;
    pool.release()?;
    let load = LoadShape { own_nanos: 0, ..LoadShape::new(RegionLoad::FileServer, 0) };
    let setup = || pool.setup(RegionKind::Full, &new, load.clone());
    let mut worker = RegionWorker::start(ferrite, SUBJECT, setup())?;
    let mut last_step = worker.order(&RegionOrder::Fill)?.last_step;
    let mut series = Series { name: SUBJECT.into(), values: Vec::new() };
    for seed in 0..plan.rounds as u64 {
        worker.kill_during(&RegionOrder::Run { nanos: u64::MAX, seed }, Duration::from_millis(KILL_MS))?;
        worker = RegionWorker::start(ferrite, SUBJECT, setup())?;
        series.values.push(worker.opened.nanos as f64 / 1e6);
        let has = worker.opened.last_step;
        if has < last_step {
            return Err(Error::server(SUBJECT, format!("a kill lost steps: it has {has}, and had {last_step}")));
        }
        last_step = has;
        session.step(CASE, EXPECTED_MS)?;
    }
    let limit = Series { name: format!("limit of {LIMIT_MS} ms"), values: vec![LIMIT_MS; plan.rounds] };
    session.report.rows.extend(rows(CASE, "ms", &[series, limit.clone()], &limit));
    Ok(())
}
