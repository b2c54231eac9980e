//! Requests to what memory holds in a file system with a tier, whose marks are kept for each page, beside one without.

use std::sync::Arc;

use ferrite_disk::RamDisk;

use super::tier_plan::TierPlan;
use super::tier_subject::OURS;
use crate::Result;
use crate::pool_tree::{OpenPool, PoolTree, finish_background};
use crate::records::{FileOrder, LibraryFolder, PAGE_BYTES, PageLoad, PageMeasure, carry_out};
use crate::rounds::BenchSubject;
use crate::session::{BenchSession, Race};

/// The beginning of the cases.
const CASES: &str = "tier or none: ";
const WITHOUT: &str = "no tier";
const NAME: &str = "files";
/// Milliseconds that a slice is expected to take.
const SLICE_MS: u64 = 5;
/// How often the load uses each page before the slices, so that memory holds all of them.
const WARM_PASSES: u64 = 12;

/// Runs the cases that the options ask for.
pub fn measure(session: &mut BenchSession<'_>, plan: &TierPlan) -> Result<()> {
    let cases = [("reads", 1000), ("overwrites", 0)].map(|(verb, reads)| (format!("{CASES}{verb}"), reads));
    let cases = session.wanted(cases, |(case, _)| case.clone());
    if cases.is_empty() {
        return Ok(());
    }
    session.announce(CASES.trim_end_matches([' ', ':']))?;
    let place = &session.options.place;
    let hot_bytes = plan.library_bytes / 8 / PAGE_BYTES * PAGE_BYTES;
    let requests = |requests, reads_permille, seed| {
        let (window_bytes, answer) = (hot_bytes, PageMeasure::Rate);
        PageLoad { files: 1, window_bytes, requests, reads_permille, sync_every: 0, seed, answer }
    };
    let folder = |files, ssd| -> Result<LibraryFolder> {
        let open_pool = OpenPool::of_small_pages(place, plan.library_bytes)?;
        let tree = PoolTree { ssd, ..PoolTree::of_small_files(&open_pool, NAME) };
        tree.make()?;
        let folder = LibraryFolder { fs: tree.open()? };
        carry_out(&folder, &FileOrder::Prepare { files, file_bytes: hot_bytes })?;
        // The used file comes back to memory, and the others stay away.
        let pass = hot_bytes / PAGE_BYTES;
        carry_out(&folder, &FileOrder::Pages(requests(WARM_PASSES * pass, 500, 1)))?;
        finish_background(&folder.fs)?;
        carry_out(&folder, &FileOrder::Pages(requests(WARM_PASSES * pass, 500, 2)))?;
        Ok(folder)
    };
    let ssd = Arc::new(RamDisk::new(2 * plan.library_bytes));
    let subjects = [(WITHOUT, folder(1, None)?), (OURS, folder(9, Some(ssd as _))?)];
    for (case, reads_permille) in cases {
        let race = Race { case: &case, unit: "1/s", rounds: plan.cost_rounds, slice_ms: SLICE_MS, beside: WITHOUT };
        let slice =
            |folder, seed| carry_out(folder, &FileOrder::Pages(requests(plan.cost_requests, reads_permille, seed)));
        let slices = subjects.iter().map(|(name, folder)| BenchSubject::new(*name, move |seed| slice(folder, seed)));
        session.race(&race, slices.collect())?;
    }
    Ok(())
}
