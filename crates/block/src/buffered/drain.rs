//! Writing what a buffer holds to the disk, step by step (pmbd.txt section IV.B.1, optimisation 1).

use ferrite_disk::{Access, Disk};
use ferrite_memory::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::ring::{PAGE, PageRing};
use super::syncer_wake::SyncerWake;
use super::{Buffered, DrainStep};

/// Pages of one run at most: 1 MiB.
const RUN_PAGES: usize = 256;

/// What is being written: pages and their slots, sorted by page, so that neighbours are written together.
#[derive(Default)]
pub(super) struct DrainPlan {
    order: Vec<(u64, u64)>,
    done: usize,
    /// Where a run is gathered.
    run: Vec<u8>,
    /// The first that the disk had no space for.
    refused: Option<Error>,
}

/// A buffer with the lock of who writes from it, which is taken before the ring's.
pub(super) struct WriteBuffer {
    /// Held while a run is on its way to the disk. `None` while nothing is planned.
    pub plan: Mutex<Option<DrainPlan>>,
    pub ring: Mutex<PageRing>,
    /// Told when the pool goes on.
    pub thawed: Condvar,
    /// Wakes the syncer.
    pub syncer_wake: SyncerWake,
}

impl WriteBuffer {
    /// One for so many pages; `None` where there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let ring = Mutex::new(PageRing::new(pages)?);
        Some(Self { plan: Mutex::new(None), ring, thawed: Condvar::new(), syncer_wake: SyncerWake::default() })
    }
}

impl<D: Disk> Buffered<D> {
    /// One step of the syncer of buffer `number`: plans, writes one run, or retires what was written. A buffer that
    /// does not pass its high watermark is left alone.
    ///
    /// # Errors
    /// Those of the disk. What could not be written is still here, and the next step tries it again.
    pub fn step(&self, number: usize) -> Result<DrainStep> {
        let mut plan = self.buffers[number].plan.lock();
        if plan.is_some() {
            return self.continue_plan(number, &mut plan);
        }
        let mut ring = self.buffers[number].ring.lock();
        if ring.used() <= self.high_pages {
            return Ok(DrainStep::Nothing);
        }
        let (_, end) = ring.bounds();
        *plan = Some(DrainPlan { order: ring.plan(end - self.low_pages), ..DrainPlan::default() });
        Ok(DrainStep::Planned)
    }

    /// Writes the next run of a plan, or retires the plan. What the disk has no space for is told then, and keeps nothing
    /// back that it has space for; after any other error the plan is still there.
    fn continue_plan(&self, number: usize, plan: &mut MutexGuard<'_, Option<DrainPlan>>) -> Result<DrainStep> {
        let Some(current) = &mut **plan else { return Ok(DrainStep::Nothing) };
        if let Some(pages) = self.write_run(number, current)? {
            return Ok(DrainStep::Wrote { pages });
        }
        let refused = current.refused.take();
        self.buffers[number].ring.lock().retire();
        **plan = None;
        refused.map_or(Ok(DrainStep::Retired), Err)
    }

    /// Writes pages that follow each other, or one page where runs are not packed; how many. `None` where all is
    /// written.
    fn write_run(&self, number: usize, plan: &mut DrainPlan) -> Result<Option<u64>> {
        let run_pages = if self.options.batch { RUN_PAGES } else { 1 };
        let mut next = plan.done;
        let mut first = None;
        plan.run.clear();
        let ring = self.buffers[number].ring.lock();
        while let Some(&(page, slot)) = plan.order.get(next) {
            let pages = (plan.run.len() / PAGE) as u64;
            if first.is_some_and(|first| page != first + pages) || pages == run_pages as u64 {
                break;
            }
            if let Some(content) = ring.planned((page, slot)) {
                first.get_or_insert(page);
                plan.run.extend_from_slice(content);
            } else if first.is_some() {
                break;
            }
            next += 1;
        }
        drop(ring);
        let pages = plan.run.len() / PAGE;
        if pages > 0 {
            self.write_pages(number, &plan.order[next - pages..next], &plan.run, &mut plan.refused)?;
        }
        plan.done = next;
        Ok(first.map(|_| pages as u64))
    }

    /// Writes `pages`, which follow each other and hold `bytes`, but for those that the disk has no space for: it takes all
    /// of a write or need take none, and may have space for a part.
    fn write_pages(
        &self,
        number: usize,
        pages: &[(u64, u64)],
        bytes: &[u8],
        refused: &mut Option<Error>,
    ) -> Result<()> {
        let at = pages[0].0 * PAGE as u64;
        let len = (bytes.len() as u64).min(self.disk.geometry().size - at);
        match self.disk.write(at, &bytes[..len as usize], Access::Cached) {
            Err(Error::NoSpace(_)) if pages.len() > 1 => {
                let half = pages.len() / 2;
                self.write_pages(number, &pages[..half], &bytes[..half * PAGE], refused)?;
                self.write_pages(number, &pages[half..], &bytes[half * PAGE..], refused)
            }
            Err(error @ Error::NoSpace(_)) => {
                self.buffers[number].ring.lock().refuse(pages[0].1);
                refused.get_or_insert(error);
                Ok(())
            }
            done => done,
        }
    }

    /// Writes everything that buffer `number` holds when this is called.
    pub(super) fn drain(&self, number: usize) -> Result<()> {
        self.drain_except_newest(number, 0)
    }

    /// The same but for the newest `kept` pages. What is refused is put behind them, so nobody else may be writing when it is
    /// looked where they begin.
    fn drain_except_newest(&self, number: usize, kept: u64) -> Result<()> {
        let mut plan = self.buffers[number].plan.lock();
        let until = self.buffers[number].ring.lock().bounds().1.saturating_sub(kept);
        let mut refused = Ok(());
        loop {
            match self.continue_plan(number, &mut plan) {
                Ok(DrainStep::Nothing) => {
                    let mut ring = self.buffers[number].ring.lock();
                    if ring.bounds().0 >= until {
                        return refused;
                    }
                    *plan = Some(DrainPlan { order: ring.plan(until), ..DrainPlan::default() });
                }
                Ok(_) => {}
                Err(error) if plan.is_some() => return Err(error),
                Err(error) => refused = refused.and(Err(error)),
            }
        }
    }

    /// What a writer does that finds buffer `number` full: the syncer's work, since that may be stopped. What is refused is
    /// told only where it leaves no room.
    pub(super) fn drain_full(&self, number: usize) -> Result<()> {
        let is_full = || self.buffers[number].ring.lock().is_full();
        if !is_full() {
            return Ok(());
        }
        let drain = |kept| match self.drain_except_newest(number, kept) {
            Err(Error::NoSpace(_)) if !is_full() => Ok(()),
            done => done,
        };
        match drain(self.low_pages) {
            Err(Error::NoSpace(_)) => drain(0),
            done => done,
        }
    }
}
