//! Draining a buffer to the disk, step by step (pmbd.txt section IV.B.1, optimisation 1).

use ferrite_disk::{Access, Disk};
use ferrite_memory::{Error, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::ring::{PAGE, PageRing, PlannedPage};
use super::syncer::SyncerWake;
use super::{Buffered, SyncerStep};

/// The largest run, in pages: 1 MiB.
const RUN_PAGES: usize = 256;

/// Pages that are being written, with their slots, sorted by page so that neighbours are written together.
#[derive(Default)]
pub(super) struct DrainPlan {
    order: Vec<PlannedPage>,
    done: usize,
    /// The bytes of the current run.
    run: Vec<u8>,
    /// The first error of a page for which the disk had no space.
    refused: Option<Error>,
}

/// A buffer and the lock of its drain, which is acquired before the lock of the ring.
pub(super) struct WriteBuffer {
    /// Held while a run is on its way to the disk. `None` while nothing is planned.
    pub plan: Mutex<Option<DrainPlan>>,
    pub ring: Mutex<PageRing>,
    /// Notified when the pool thaws.
    pub thawed: Condvar,
    /// Wakes the syncer.
    pub syncer_wake: SyncerWake,
}

impl WriteBuffer {
    /// Makes a buffer for `pages` pages; `None` if there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let ring = Mutex::new(PageRing::new(pages)?);
        Some(Self { plan: Mutex::new(None), ring, thawed: Condvar::new(), syncer_wake: SyncerWake::default() })
    }
}

impl<D: Disk> Buffered<D> {
    /// Takes one step of the syncer of buffer `number`: plans, writes one run, or frees the slots of written pages.
    /// Does nothing if the buffer is below its high watermark.
    ///
    /// # Errors
    /// The errors of the disk. The pages stay in the buffer, and the next step tries them again.
    pub fn step(&self, number: usize) -> Result<SyncerStep> {
        let mut plan = self.buffers[number].plan.lock();
        if plan.is_some() {
            return self.continue_plan(number, &mut plan);
        }
        let mut ring = self.buffers[number].ring.lock();
        if ring.used() <= self.high_pages {
            return Ok(SyncerStep::Nothing);
        }
        let (_, end) = ring.bounds();
        *plan = Some(DrainPlan { order: ring.plan(end - self.low_pages), ..DrainPlan::default() });
        Ok(SyncerStep::Planned)
    }

    /// Writes the next run of a plan, or ends the plan. An error of a page without space is returned at the end, after
    /// all other pages are written. After any other error the plan stays.
    fn continue_plan(&self, number: usize, plan: &mut MutexGuard<'_, Option<DrainPlan>>) -> Result<SyncerStep> {
        let Some(current) = &mut **plan else { return Ok(SyncerStep::Nothing) };
        if let Some(pages) = self.write_run(number, current)? {
            return Ok(SyncerStep::Wrote { pages });
        }
        let refused = current.refused.take();
        self.buffers[number].ring.lock().retire();
        **plan = None;
        refused.map_or(Ok(SyncerStep::Retired), Err)
    }

    /// Writes a run of neighbouring pages, or one page if batching is off, and returns the number of pages. Returns
    /// `None` if all pages are written.
    fn write_run(&self, number: usize, plan: &mut DrainPlan) -> Result<Option<u64>> {
        let run_pages = if self.options.batch { RUN_PAGES } else { 1 };
        let mut next = plan.done;
        let mut first = None;
        plan.run.clear();
        let ring = self.buffers[number].ring.lock();
        while let Some(&planned) = plan.order.get(next) {
            let pages = (plan.run.len() / PAGE) as u64;
            if first.is_some_and(|first| planned.page != first + pages) || pages == run_pages as u64 {
                break;
            }
            if let Some(content) = ring.planned(planned) {
                first.get_or_insert(planned.page);
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

    /// Writes the neighbouring `pages` with content `bytes`. A disk without space for a whole write may have space for
    /// a part of it, so the write is split until each page without space is found.
    fn write_pages(
        &self,
        number: usize,
        pages: &[PlannedPage],
        bytes: &[u8],
        refused: &mut Option<Error>,
    ) -> Result<()> {
        let at = pages[0].page * PAGE as u64;
        let len = (bytes.len() as u64).min(self.disk.geometry().size - at);
        match self.disk.write(at, &bytes[..len as usize], Access::Cached) {
            Err(Error::NoSpace(_)) if pages.len() > 1 => {
                let half = pages.len() / 2;
                self.write_pages(number, &pages[..half], &bytes[..half * PAGE], refused)?;
                self.write_pages(number, &pages[half..], &bytes[half * PAGE..], refused)
            }
            Err(error @ Error::NoSpace(_)) => {
                self.buffers[number].ring.lock().refuse(pages[0].slot);
                refused.get_or_insert(error);
                Ok(())
            }
            done => done,
        }
    }

    /// Writes all pages that buffer `number` holds at the call.
    pub(super) fn drain(&self, number: usize) -> Result<()> {
        self.drain_except_newest(number, 0)
    }

    /// Drains all pages except the newest `kept`. Refused pages are put behind the others, so the plan's lock is held
    /// while the end is determined.
    fn drain_except_newest(&self, number: usize, kept: u64) -> Result<()> {
        let mut plan = self.buffers[number].plan.lock();
        let until = self.buffers[number].ring.lock().bounds().1.saturating_sub(kept);
        let mut refused = Ok(());
        loop {
            match self.continue_plan(number, &mut plan) {
                Ok(SyncerStep::Nothing) => {
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

    /// Drains buffer `number` if it is full, without help of the syncer. An error of a page without space is returned
    /// only if the buffer stays full.
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
