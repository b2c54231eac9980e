//! A disk behind buffers in DRAM, which amortise what each write to it costs: PMBD's first two optimisations of a guard
//! by page table (pmbd.txt section IV.B.1, figures 4 to 6), and what they cost in turn.
//!
//! A write is done when its pages are in a buffer. Addresses go round-robin over the buffers, a *stride* each, so that
//! neighbours meet in one buffer and a page is always in the same one. A buffer that passes its high watermark is
//! drained to its low one by its *syncer*: the oldest pages, sorted by address, and neighbours in one write.
//!
//! - U1. What a write left is what readers see from then on, whether it is still in a buffer or not. A page leaves its
//!   buffer only when the disk has it.
//! - U2. The content of a page that is being written does not change; a newer one is kept beside it and written after
//!   it. So no older content overtakes a newer one.
//! - U3. When a flush returns, every write, trim and zeroing that completed before the call is durable: every buffer was
//!   drained and the disk flushed. A FUA write does the same.
//! - U4. Buffers are bounded. A write to a full one drains it itself, so nothing depends on a syncer.
//! - U5. A trim or zeroing is at the disk when it completes, and what the buffers held of its pages is gone, not written
//!   after it.
//! - U6. What the disk refuses stays in its buffer: a flush tells it, until it succeeds. What the disk has no space for
//!   keeps nothing else back.
//! - U7. While the pool stands still nothing is added to a buffer, and the buffers are empty, but for what the disk
//!   refuses. Who is writing from one meanwhile waits at the disk, and is not waited for.
//!
//! Locks are taken in the order plan, ring, and what the disk has.

mod drain;
mod options;
mod requests;
mod ring;
mod syncer;
mod syncer_wake;
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
pub use syncer::Syncers;
use syncer_wake::SyncerWake;

/// What a step of a syncer did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainStep {
    /// Nothing: the buffer does not pass its high watermark.
    Nothing,
    /// Chose what to write.
    Planned,
    /// Wrote a run to the disk.
    Wrote {
        /// Pages in it.
        pages: u64,
    },
    /// Freed what was written.
    Retired,
}

/// The disk `D` behind buffers. See the module's head for what holds.
pub struct Buffered<D> {
    disk: D,
    options: BufferOptions,
    buffers: Box<[WriteBuffer]>,
    high_pages: u64,
    low_pages: u64,
    stages: Option<Arc<Stages>>,
}

impl<D: Disk> Buffered<D> {
    /// `disk` behind empty buffers.
    ///
    /// # Errors
    /// What [`BufferOptions::check`] refuses, and buffers for which there is no memory.
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

    /// The same, with the time in its buffers counted in `stages`, those of the disk under it.
    #[must_use]
    pub fn counted(self, stages: Option<Arc<Stages>>) -> Self {
        Self { stages, ..self }
    }

    /// The disk under it.
    #[cfg(test)]
    pub(crate) fn inner(&self) -> &D {
        &self.disk
    }

    /// Bytes that only its buffers have: an unclean stop now loses them.
    pub fn unsaved_bytes(&self) -> u64 {
        self.buffers.iter().map(|buffer| buffer.ring.lock().dirty() * PAGE as u64).sum()
    }

    /// How many buffers there are, numbered from 0.
    pub fn buffers(&self) -> usize {
        self.buffers.len()
    }

    fn syncer_wake(&self, number: usize) -> &SyncerWake {
        &self.buffers[number].syncer_wake
    }

    /// Writes everything that the buffers hold when this is called to the disk.
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

    /// The ring of buffer `number`, to be changed; waits while the pool stands still (U7).
    fn lock_ring(&self, number: usize) -> MutexGuard<'_, PageRing> {
        let mut ring = self.buffers[number].ring.lock();
        while ring.is_frozen {
            self.buffers[number].thawed.wait(&mut ring);
        }
        ring
    }

    /// The same with nothing on its way to the disk, and nothing starting until the plan is released.
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
        // What the disk refuses is not in the backup either way; the next flush tells it (U6).
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
    /// A disk of a pool behind empty buffers, which stand still with the pool (U7) and count with the disk.
    ///
    /// # Errors
    /// What [`BufferOptions::check`] refuses.
    pub fn in_front_of(disk: Arc<BlockDisk>, options: BufferOptions) -> Result<Arc<Self>> {
        let stages = disk.stages().cloned();
        let buffered = Arc::new(Self::new(Arc::clone(&disk), options)?.counted(stages));
        let front: Arc<dyn Freeze> = buffered.clone();
        disk.pool.register_front(Arc::downgrade(&front));
        Ok(buffered)
    }
}
