//! A thread's own way to a disk that works on many requests at once.
//!
//! - Q1. Each submitted request completes exactly once, at the queue that took it, in the order in which requests end.
//! - Q2. The queue owns a request's buffer until the request completes, also if its submitter waits no more.
//! - Q3. A flush covers the requests that completed before it was submitted, at any queue of the disk. It does not
//!   cover a request that is in flight.
//! - Q4. While a completion waits to be collected, [`Queue::descriptor`] is readable.
//! - Q5. After a collection that finds nothing the descriptor is not readable until a request ends, so that nothing spins.
//!   A simulated drive on a clock that does not pass is the exception.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use ferrite_memory::Result;

use crate::{Completion, Request};

mod caller_queue;
mod layered_queue;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use caller_queue::queue_to;
pub(crate) use layered_queue::RequestNotes;
pub use layered_queue::{LayeredQueue, NotedRequest, QueueLayer};

/// How long [`Queue::collect`] waits for a first completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// It does not wait.
    No,
    /// At most this long.
    AtMost(Duration),
    /// Until one completes. A queue without requests in flight does not wait.
    Forever,
}

/// Requests that one thread has in flight at a disk. [`Disk::queue`](crate::Disk::queue) opens one.
///
/// Dropping a queue waits until the device has ended the requests that it has begun, and discards their completions.
/// Requests that the device has not begun are cancelled.
pub trait Queue: Send {
    /// Starts `request`. Returns its completion if it ended at once.
    fn submit(&mut self, request: Request) -> Option<Completion>;

    /// Appends the requests that completed to `completions`. Returns how many it appended.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the queue itself fails. Requests in flight stay in flight.
    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize>;

    /// Readable while a completion waits to be collected (Q4).
    fn descriptor(&self) -> BorrowedFd<'_>;

    /// Number of requests that were submitted and not yet collected.
    fn in_flight(&self) -> usize;
}
