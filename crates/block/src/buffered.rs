//! A disk behind buffers in DRAM, which amortise the cost of each write: PMBD's first two optimisations of a guard by
//! page table (pmbd.txt section IV.B.1, figures 4 to 6).
//!
//! A write completes when its pages are in a buffer. Addresses go round-robin over the buffers, a *stride* each, so
//! neighbours meet in one buffer and a page is always in the same one. The *syncer* of a buffer drains it to the low
//! watermark when it passes the high one: the oldest pages, sorted by address, and neighbours in one write.
//!
//! - U1. Readers see a completed write whether it is still in a buffer or not. A page leaves its buffer only after the
//!   disk has it.
//! - U2. The content of a page that is being written does not change. Newer content is kept beside it and written after
//!   it, so old content never overtakes new content.
//! - U3. When a flush returns, every write, trim and zeroing that completed before the call is durable: every buffer
//!   was drained and the disk flushed. A FUA write does the same.
//! - U4. Buffers are bounded. A write that finds its buffer full drains it itself, so no write depends on a syncer.
//! - U5. A trim or zeroing is at the disk when it completes, and its pages are no longer in the buffers.
//! - U6. A page that the disk refuses stays in its buffer, and each flush reports the error until the disk takes it. A
//!   page for which the disk has no space does not keep other pages back.
//! - U7. While the pool is frozen no page is added to a buffer, and the buffers hold only pages that the disk refuses.
//!   A thread that drains a buffer at that time waits at the disk, and the freeze does not wait for it.
//!
//! Locks are acquired in the order plan, ring, locks of the disk.

mod drain;
mod options;
mod requests;
mod ring;
mod syncer;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::{Error, Result, planted};
use ferrite_pool::Freeze;
use parking_lot::MutexGuard;

use crate::disk::BlockDisk;
use crate::stages::{DiskStage, StageTimer, Stages};

use drain::{DrainPlan, WriteBuffer};
pub use options::BufferOptions;
use ring::{PAGE, PageRing};
use syncer::SyncerWake;
pub use syncer::Syncers;

/// The result of one step of a syncer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncerStep {
    /// Nothing was done: the buffer is below its high watermark.
    Nothing,
    /// The pages to write were chosen.
    Planned,
    /// A run was written to the disk.
    Wrote {
        /// Pages of the run.
        pages: u64,
    },
    /// The slots of written pages were freed.
    Retired,
}

/// The disk `D` behind buffers, with the rules of this module.
pub struct Buffered<D> {
    disk: D,
    options: BufferOptions,
    buffers: Box<[WriteBuffer]>,
    high_pages: u64,
    low_pages: u64,
    stages: Option<Arc<Stages>>,
}

impl<D: Disk> Buffered<D> {
    /// Puts empty buffers in front of `disk`.
    ///
    /// # Errors
    /// The errors of [`BufferOptions::check`]; [`Error::Unsupported`] if there is no memory for the buffers.
    pub fn new(disk: D, options: BufferOptions) -> Result<Self> {
        options.check()?;
        let pages = options.buffer_bytes / PAGE as u64;
        let part = |of: f64| (pages as f64 * of) as u64;
        let buffers: Option<_> = (0..options.buffers).map(|_| WriteBuffer::new(pages as usize)).collect();
        let too_large = || {
            let BufferOptions { buffers, buffer_bytes, .. } = options;
            Error::Unsupported(format!("write buffers: {buffers} of {buffer_bytes} bytes: there is no memory for them"))
        };
        Ok(Self {
            disk,
            buffers: buffers.ok_or_else(too_large)?,
            high_pages: part(options.high),
            low_pages: part(options.low).min(pages - 1),
            stages: None,
            options,
        })
    }

    /// Counts the time spent in the buffers in `stages`, the counters of the disk behind them.
    #[must_use]
    pub fn counted(self, stages: Option<Arc<Stages>>) -> Self {
        Self { stages, ..self }
    }

    /// Returns the bytes that only the buffers hold: an unclean stop loses them.
    pub fn unsaved_bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.ring.lock().dirty() * PAGE as u64).sum()
    }

    /// Returns the number of buffers, which are numbered from 0.
    pub fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn syncer_wake(&self, number: usize) -> &SyncerWake {
        &self.buffers[number].syncer_wake
    }

    /// Writes all pages that the buffers hold at the call to the disk.
    fn drain_all(&self) -> Result<()> {
        let mut result = Ok(());
        for number in 0..self.buffers.len() {
            if number == 1 && planted!("block: flush forgets a buffer") {
                continue;
            }
            result = result.and(self.drain(number));
        }
        result
    }

    /// Locks the ring of buffer `number` for a change. Waits while the pool is frozen (U7).
    fn lock_ring(&self, number: usize) -> MutexGuard<'_, PageRing> {
        let mut ring = self.buffers[number].ring.lock();
        while ring.is_frozen {
            self.buffers[number].thawed.wait(&mut ring);
        }
        ring
    }

    /// Locks the plan and the ring of buffer `number`: no page is on its way to the disk until the plan is released.
    fn lock_ring_and_plan(&self, number: usize) -> (MutexGuard<'_, Option<DrainPlan>>, MutexGuard<'_, PageRing>) {
        loop {
            drop(self.lock_ring(number));
            let plan = self.buffers[number].plan.lock();
            let ring = self.buffers[number].ring.lock();
            if !ring.is_frozen {
                return (plan, ring);
            }
        }
    }

    fn timer(&self) -> StageTimer<'_> {
        StageTimer::start(self.stages.as_deref(), DiskStage::Buffer)
    }
}

impl<D: Disk> Freeze for Buffered<D> {
    fn freeze(&self) {
        self.buffers.iter().for_each(|buffer| buffer.ring.lock().is_frozen = true);
        // A backup does not hold pages that the disk refuses, and the next flush reports the error (U6).
        let _ = self.drain_all();
    }

    fn thaw(&self) {
        for buffer in &self.buffers {
            buffer.ring.lock().is_frozen = false;
            buffer.thawed.notify_all();
        }
    }
}

impl Buffered<Arc<BlockDisk>> {
    /// Puts empty buffers in front of a disk of a pool. They freeze with the pool (U7), and their time is counted with
    /// the disk's.
    ///
    /// # Errors
    /// The errors of [`BufferOptions::check`]; [`Error::Unsupported`] if there is no memory for the buffers.
    pub fn in_front_of(disk: Arc<BlockDisk>, options: BufferOptions) -> Result<Arc<Self>> {
        let stages = disk.stages().cloned();
        let buffered = Arc::new(Self::new(Arc::clone(&disk), options)?.counted(stages));
        let front: Arc<dyn Freeze> = buffered.clone();
        disk.pool.register_front(Arc::downgrade(&front));
        Ok(buffered)
    }
}
