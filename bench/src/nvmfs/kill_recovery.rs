//! The time to open a pool with a tier whose owner was killed, until files can be read.

use std::sync::Arc;
use std::time::Instant;

use ferrite_disk::{Disk, RamDisk};

use super::tier_plan::TierPlan;
use super::tier_subject::OURS;
use crate::Result;
use crate::pool_tree::{OpenPool, PoolTree, finish_background};
use crate::records::{FileOrder, LibraryFolder, PAGE_BYTES, PageLoad, PageMeasure, carry_out};
use crate::report::rows;
use crate::rounds::Series;
use crate::session::BenchSession;

/// The case.
pub const CASE: &str = "recovery of a pool with a tier that was killed under load";
/// The limit that the time is compared with, in milliseconds.
pub const LIMIT_MS: f64 = 100.0;
const NAME: &str = "killed";
/// Milliseconds that a kill is expected to take.
const KILL_MS: u64 = 300;

/// Runs the case if the options ask for it.
pub fn measure(session: &mut BenchSession<'_>, plan: &TierPlan) -> Result<()> {
    if session.wanted([CASE], |case| *case).is_empty() {
        return Ok(());
    }
    session.announce(CASE)?;
    let file_bytes = plan.library_bytes / 2 * 3;
    let pages = file_bytes / PAGE_BYTES;
    let requests = |requests, reads_permille, seed| {
        let (window_bytes, answer) = (file_bytes, PageMeasure::Rate);
        PageLoad { files: 1, window_bytes, requests, reads_permille, sync_every: 0, seed, answer }
    };
    let place = &session.options.place;
    let ssd = Arc::new(RamDisk::new(plan.killed_ssd_bytes));
    let open_pool = OpenPool::of_small_pages(place, plan.library_bytes)?;
    let tree = |open_pool: &Arc<OpenPool>| {
        let ssd: Arc<dyn Disk> = ssd.clone();
        PoolTree { ssd: Some(ssd), ..PoolTree::of_small_files(open_pool, NAME) }
    };
    tree(&open_pool).make()?;
    let mut folder = LibraryFolder { fs: tree(&open_pool).open()? };
    let mut closed = open_pool.place();
    drop(open_pool);
    carry_out(&folder, &FileOrder::Prepare { files: 1, file_bytes })?;
    let mut series = Series { name: OURS.into(), values: Vec::new() };
    for seed in 0..plan.kills as u64 {
        carry_out(&folder, &FileOrder::Pages(requests(pages / 4, 0, seed)))?;
        finish_background(&folder.fs)?;
        carry_out(&folder, &FileOrder::Pages(requests(pages / 32, 0, seed + 1)))?;
        let killed = closed.killed(place)?;
        drop(folder);
        let begun = Instant::now();
        let open_pool = killed.open()?;
        folder = LibraryFolder { fs: tree(&open_pool).open()? };
        series.values.push(begun.elapsed().as_secs_f64() * 1e3);
        // What is read from the SSD is compared with its check.
        carry_out(&folder, &FileOrder::Pages(requests(pages / 8, 1000, seed)))?;
        closed = killed;
        session.step(CASE, KILL_MS)?;
    }
    let limit = Series { name: format!("limit of {LIMIT_MS} ms"), values: vec![LIMIT_MS; plan.kills] };
    session.report.rows.extend(rows(CASE, "ms", &[series, limit.clone()], &limit));
    Ok(())
}
