//! The plane of a program whose own stores go to frames: a region of this process.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ferrite_memory::{Memory, RegionPlace, Span, TrapRegion, planted};
use ferrite_pool::layout::{CHUNK, PAGE};
use parking_lot::Mutex;

use crate::Result;
use crate::frame_space::FrameSpace;
use crate::plane::Plane;

/// The region of a guest in this process. Nothing but the program writes to the guest while it is mapped.
pub struct TrapPlane {
    region: Arc<TrapRegion>,
    /// The addresses of the chunks that the region can show.
    sources: Mutex<HashSet<u64>>,
    mapped: Mutex<MappedPages>,
    /// The number of mappings that the region may have (VP6).
    mappings_max: usize,
}

impl TrapPlane {
    /// Maps the region of the guest in `space`, at `place` if it is given.
    ///
    /// # Errors
    /// The errors of [`TrapRegion`].
    pub(crate) fn new(space: &FrameSpace, place: Option<RegionPlace>, mappings_max: usize) -> Result<Self> {
        let region = Arc::new(TrapRegion::at(place, space.layout.size)?);
        let plane = Self { region, sources: Mutex::default(), mapped: Mutex::default(), mappings_max };
        plane.add_frames(space.memory(), &space.frame_runs())?;
        Ok(plane)
    }

    /// Returns the region.
    pub fn region(&self) -> &Arc<TrapRegion> {
        &self.region
    }
}

/// Returns the addresses of the chunks of `run`.
fn chunks(run: Span) -> impl Iterator<Item = u64> {
    (run.at..run.at + run.len).step_by(CHUNK as usize)
}

/// Returns the runs of the chunks at the addresses `chunks`.
fn joined(mut chunks: Vec<u64>) -> Vec<Span> {
    chunks.sort_unstable();
    let mut runs: Vec<Span> = chunks.into_iter().map(|at| Span::new(at, CHUNK)).collect();
    runs.dedup_by(|next, run| {
        let is_neighbour = run.at + run.len == next.at;
        run.len += if is_neighbour { next.len } else { 0 };
        is_neighbour
    });
    runs
}

impl Drop for TrapPlane {
    fn drop(&mut self) {
        self.region.cover();
        // Nothing stages any longer.
        self.region.stop();
    }
}

impl Plane for TrapPlane {
    fn map(&self, pages: &[(u64, u64)]) -> bool {
        let mut mapped = self.mapped.lock();
        mapped.was_used = true;
        // Frames of different chunks may be parts of different sources.
        let follows =
            |one: &(u64, u64), next: &(u64, u64)| (one.0 + 1, one.1 + PAGE) == *next && !next.1.is_multiple_of(CHUNK);
        for run in pages.chunk_by(follows) {
            let span = Span::new(run[0].0 * PAGE, run.len() as u64 * PAGE);
            let before = mapped.clone_run(run);
            let seams = mapped.seams;
            run.iter().for_each(|(page, at)| mapped.set(*page, Some(*at)));
            let is_uncounted = planted!("guest: the mappings of a region are not counted");
            let has_room = mapped.seams <= seams.max(self.mappings_max) || is_uncounted;
            if !has_room || self.region.map(span, run[0].1).is_err() {
                before.into_iter().for_each(|(page, at)| mapped.set(page, at));
                return false;
            }
            self.region.wake(span);
        }
        true
    }

    fn stage(&self, first: u64, count: u64) {
        // The region is changed without the lock: until the kernel's message is read (VP7).
        let mut mapped = self.mapped.lock();
        (first..first + count).for_each(|page| mapped.set(page, None));
        drop(mapped);
        self.region.stage(Span::new(first * PAGE, count * PAGE));
    }

    fn stage_all(&self) {
        let mut mapped = self.mapped.lock();
        if !mapped.was_used {
            // Maybe no thread reads the kernel's messages yet (VP7).
            return;
        }
        *mapped = MappedPages { was_used: true, ..MappedPages::default() };
        drop(mapped);
        self.region.stage(Span::new(0, self.region.size()));
    }

    fn fill(&self, page: u64, bytes: &[u8]) -> ferrite_memory::Result<()> {
        self.region.fill(page * PAGE, bytes)
    }

    fn add_frames(&self, memory: &dyn Memory, runs: &[Span]) -> ferrite_memory::Result<()> {
        let mut sources = self.sources.lock();
        let is_new = |at: &u64| !sources.contains(at);
        for run in joined(runs.iter().copied().flat_map(chunks).filter(is_new).collect()) {
            self.region.add_source(run, memory.share(run)?)?;
            sources.extend(chunks(run));
        }
        Ok(())
    }
}

/// The pages that are mapped to frames, each with the frame's address in the pool's memory.
#[derive(Default)]
struct MappedPages {
    places: HashMap<u64, u64>,
    /// Pages that begin another mapping of the kernel than the page before them.
    seams: usize,
    /// Pages were mapped since the region was made.
    was_used: bool,
}

impl MappedPages {
    fn is_seam(&self, page: u64) -> bool {
        let place = |page| self.places.get(&page).copied();
        page.checked_sub(1).and_then(place).map(|at| at + PAGE) != place(page)
    }

    fn seams_around(&self, page: u64) -> usize {
        usize::from(self.is_seam(page)) + usize::from(self.is_seam(page + 1))
    }

    fn set(&mut self, page: u64, place: Option<u64>) {
        let before = self.seams_around(page);
        match place {
            Some(at) => self.places.insert(page, at),
            None => self.places.remove(&page),
        };
        self.seams = self.seams + self.seams_around(page) - before;
    }

    /// Returns the places that the pages of `run` have now.
    fn clone_run(&self, run: &[(u64, u64)]) -> Vec<(u64, Option<u64>)> {
        run.iter().map(|(page, _)| (*page, self.places.get(page).copied())).collect()
    }
}

#[cfg(test)]
mod tests;
