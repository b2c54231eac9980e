//! The queue of a disk that works in its caller's thread, for wrapping disks that hold requests back.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use ferrite_memory::Result;

use crate::{Completion, Disk, Queue, ReadyEvent, Request, Wait};

/// A queue that executes each request when it is submitted.
struct CallerQueue<D> {
    disk: Arc<D>,
    /// Never signalled: nothing waits to be collected.
    ready: ReadyEvent,
}

/// Opens a queue to `disk`, one that works in the caller's thread if the disk has no other.
///
/// # Errors
/// The errors of [`Disk::queue`].
pub(crate) fn queue_to<D: Disk + 'static>(disk: &Arc<D>) -> Result<Box<dyn Queue>> {
    match disk.queue()? {
        Some(queue) => Ok(queue),
        None => Ok(Box::new(CallerQueue { disk: Arc::clone(disk), ready: ReadyEvent::new()? })),
    }
}

impl<D: Disk> Queue for CallerQueue<D> {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        Some(request.execute(&*self.disk))
    }

    fn collect(&mut self, _: Wait, _: &mut Vec<Completion>) -> Result<usize> {
        Ok(0)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn in_flight(&self) -> usize {
        0
    }
}
