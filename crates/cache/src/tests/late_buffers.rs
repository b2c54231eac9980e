//! CA18: the buffers of requests that are waited for no more.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

use ferrite_disk::{Access, Completion, Disk, FaultAction, FaultCondition, FaultPlan, Geometry, Queue, Request, Wait};
use ferrite_memory::Result;

use super::RigShape;
use super::failures::{TimedRig, state_of};
use crate::SsdState;

/// The thread that waits for an SSD to end its requests.
const LATE: &str = "cache-late";

/// An SSD that counts the requests whose queue a thread drops before the SSD has ended them, except [`LATE`].
struct WatchedSsd {
    inner: Arc<dyn Disk>,
    dropped: Arc<AtomicU32>,
}

impl Disk for WatchedSsd {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.inner.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        let inner = self.inner.queue()?.expect("a disk with faults has queues");
        Ok(Some(Box::new(WatchedQueue { inner, dropped: Arc::clone(&self.dropped) })))
    }
}

/// A queue of a [`WatchedSsd`]. It owns the buffers of its requests.
struct WatchedQueue {
    inner: Box<dyn Queue>,
    dropped: Arc<AtomicU32>,
}

impl Queue for WatchedQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        self.inner.submit(request)
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        self.inner.collect(wait, completions)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.inner.descriptor()
    }

    fn in_flight(&self) -> usize {
        self.inner.in_flight()
    }
}

impl Drop for WatchedQueue {
    fn drop(&mut self) {
        if thread::current().name() != Some(LATE) {
            self.dropped.fetch_add(self.inner.in_flight() as u32, Ordering::SeqCst);
        }
    }
}

/// Reads and writes while an SSD hangs, with `bug` planted in the worker. Returns the requests that lost their queue before the SSD had ended them.
fn dropped_beside_a_hung_ssd(bug: Option<&'static str>) -> u32 {
    let world = RigShape::default().world();
    let dropped = Arc::new(AtomicU32::new(0));
    let watched = |inner| Arc::new(WatchedSsd { inner, dropped: Arc::clone(&dropped) }) as Arc<dyn Disk>;
    let timed = TimedRig::over(&world, watched, bug);
    let hang = FaultPlan::of(FaultAction::Hang, FaultCondition { from: Some(0), ..FaultCondition::default() });
    for round in 1..=12_u64 {
        if round == 6 {
            timed.faults[1].faults().set(hang.clone());
        }
        for block in 0..12 {
            timed.rig.write(block, round * 100 + block);
            let _ = timed.rig.read((block + 5) % 12).expect("read");
        }
    }
    assert_eq!(state_of(&timed.rig, 1), SsdState::Failed);
    dropped.load(Ordering::SeqCst)
}

#[test]
fn ca18_queue_keeps_the_buffers_of_abandoned_requests() {
    assert_eq!(dropped_beside_a_hung_ssd(None), 0);
}

/// In some runs only clients have requests in flight when the SSD fails.
#[test]
fn canary_queue_of_a_late_ssd_that_is_dropped_is_caught() {
    let is_caught = || dropped_beside_a_hung_ssd(Some("cache: the queue of a late SSD is dropped")) > 0;
    assert!((0..5).any(|_| is_caught()));
}
