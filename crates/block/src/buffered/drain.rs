//! Writing what a buffer holds to the disk, step by step (pmbd.txt section IV.B.1, optimisation 1).

use ferrite_medium::{Access, Disk, Result};
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::bell::Bell;
use super::ring::{PAGE, Ring};
use super::{Buffered, Drained};

/// Pages of one run at most: 1 MiB.
const RUN_PAGES: usize = 256;

/// What is being written: pages and their slots, sorted by page, so that neighbours are written together.
#[derive(Default)]
pub(super) struct Plan {
    order: Vec<(u64, u64)>,
    done: usize,
    /// Where a run is gathered.
    run: Vec<u8>,
}

/// A buffer with the lock of who writes from it, which is taken before the ring's.
pub(super) struct Buffer {
    /// Held while a run is on its way to the disk. `None` while nothing is planned.
    pub plan: Mutex<Option<Plan>>,
    pub ring: Mutex<Ring>,
    /// Told when the pool goes on.
    pub thawed: Condvar,
    /// Wakes the syncer.
    pub bell: Bell,
}

impl Buffer {
    /// One for so many pages; `None` where there is no memory for them.
    pub fn new(pages: usize) -> Option<Self> {
        let ring = Mutex::new(Ring::new(pages)?);
        Some(Self { plan: Mutex::new(None), ring, thawed: Condvar::new(), bell: Bell::default() })
    }
}

impl<D: Disk> Buffered<D> {
    /// One step of the syncer of buffer `number`: plans, writes one run, or retires what was written. A buffer that
    /// does not pass its high watermark is left alone.
    ///
    /// # Errors
    /// Those of the disk. What could not be written is still here, and the next step tries it again.
    pub fn step(&self, number: usize) -> Result<Drained> {
        let mut plan = self.buffers[number].plan.lock();
        if plan.is_some() {
            return self.go_on(number, &mut plan);
        }
        let mut ring = self.buffers[number].ring.lock();
        if ring.used() <= self.high_pages {
            return Ok(Drained::Nothing);
        }
        let (_, end) = ring.bounds();
        *plan = Some(Plan { order: ring.plan(end - self.low_pages), ..Plan::default() });
        Ok(Drained::Planned)
    }

    /// Writes the next run of a plan, or retires the plan.
    fn go_on(&self, number: usize, plan: &mut MutexGuard<'_, Option<Plan>>) -> Result<Drained> {
        let Some(current) = &mut **plan else { return Ok(Drained::Nothing) };
        if let Some(pages) = self.write_run(number, current)? {
            return Ok(Drained::Wrote { pages });
        }
        self.buffers[number].ring.lock().retire();
        **plan = None;
        Ok(Drained::Retired)
    }

    /// Writes pages that follow each other, or one page where runs are not packed; how many. `None` where all is
    /// written.
    fn write_run(&self, number: usize, plan: &mut Plan) -> Result<Option<u64>> {
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
        if let Some(first) = first {
            let at = first * PAGE as u64;
            let len = (plan.run.len() as u64).min(self.disk.geometry().size - at);
            self.disk.write(at, &plan.run[..len as usize], Access::Cached)?;
        }
        plan.done = next;
        Ok(first.map(|_| (plan.run.len() / PAGE) as u64))
    }

    /// Writes everything that buffer `number` holds when this is called.
    pub(super) fn drain(&self, number: usize) -> Result<()> {
        let until = self.buffers[number].ring.lock().bounds().1;
        self.drain_until(number, until)
    }

    fn drain_until(&self, number: usize, until: u64) -> Result<()> {
        let mut plan = self.buffers[number].plan.lock();
        loop {
            while self.go_on(number, &mut plan)? != Drained::Nothing {}
            let mut ring = self.buffers[number].ring.lock();
            let (start, _) = ring.bounds();
            if start >= until {
                return Ok(());
            }
            *plan = Some(Plan { order: ring.plan(until), ..Plan::default() });
        }
    }

    /// What a writer does that finds buffer `number` full: the syncer's work, since that may be stopped.
    pub(super) fn make_room(&self, number: usize) -> Result<()> {
        let until = {
            let ring = self.buffers[number].ring.lock();
            if !ring.is_full() {
                return Ok(());
            }
            ring.bounds().1 - self.low_pages
        };
        self.drain_until(number, until)
    }
}
