//! The 99th percentile of a request's time while the cache destages at full rate, beside the same load without destaging.

use std::sync::Arc;

use ferrite_cache::CacheSettings;

use super::cache_kind::{CacheKind, MultiCase, SimSizes};
use super::closed_loop::ClosedLoop;
use super::drive_set::DriveSet;
use crate::Result;
use crate::cache_stage::NAME;
use crate::report::rows;
use crate::rounds::{Series, quantile};
use crate::session::BenchSession;

/// The subjects: the cache while it destages at full rate, and while it destages nothing.
const SUBJECTS: [&str; 2] = ["destaging", "no destaging"];
/// Milliseconds that a case is expected to take.
const RUN_MS: u64 = 2000;

fn name(case: &MultiCase) -> String {
    format!("{}: p99 of a request", case.name())
}

/// Measures the cases that the options ask for.
pub fn measure(session: &mut BenchSession<'_>, sizes: &SimSizes) -> Result<()> {
    let cases = [900, 500].map(|reads_permille| MultiCase { reads_permille, theta: 0.5, flash_percent: 60 });
    for case in session.wanted(cases, name) {
        session.announce(&name(&case))?;
        let latencies_ns = latencies_ns(&case, sizes)?;
        let series = [0, 1].map(|number: usize| Series {
            name: SUBJECTS[number].into(),
            values: vec![quantile(&latencies_ns[number], 0.99) / 1e6],
        });
        session.report.rows.extend(rows(&name(&case), "ms", &series, &series[1]));
        session.step(&name(&case), RUN_MS)?;
    }
    Ok(())
}

/// Returns the times of requests while the cache destages at full rate, and without destaging. The first begins with the
/// dirty pages that the cache aims at, 60 % of the most that there may be.
fn latencies_ns(case: &MultiCase, sizes: &SimSizes) -> Result<[Vec<f64>; 2]> {
    let drives = DriveSet::new(sizes.file_bytes, 2, case.ssd_bytes(sizes));
    let Some(cache) = CacheKind::Ferrite.open(&drives, sizes)? else { return Ok(Default::default()) };
    let disk = cache.disk(NAME)?;
    let mut clients = ClosedLoop::new(&drives, Some(Arc::clone(&cache)), &*disk, case.load(sizes), 5)?;
    let blocks = sizes.blocks();
    clients.run(blocks * sizes.warm_windows[0] as u64)?;
    let settings = cache.settings();
    let dirty_max = 2 * case.ssd_bytes(sizes) * u64::from(settings.dirty_max_permille) / 1000;
    let requests = [blocks / 64, blocks / 2];
    cache.clean_all(true);
    clients.latencies_ns(requests, || cache.dirty_bytes() > dirty_max / 10 * 6)?;
    let with = clients.latencies_ns(requests, || cache.dirty_bytes() > dirty_max / 10)?;
    cache.clean_all(false);
    cache.set(CacheSettings { destage_rate: Some(0), ..settings })?;
    // A batch that is under way ends first.
    clients.run(requests[0])?;
    let without = clients.latencies_ns(requests, || cache.dirty_bytes() < dirty_max / 10 * 6)?;
    Ok([with, without])
}
