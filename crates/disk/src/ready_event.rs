//! The descriptor of a queue: readable while the queue has something to collect.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use ferrite_memory::{Error, Result, planted};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::{Errno, read, write};

use crate::Wait;

/// An event that threads signal and that a queue's descriptor shows.
#[derive(Debug)]
pub struct ReadyEvent(OwnedFd);

impl ReadyEvent {
    /// Makes an event that is not signalled.
    ///
    /// # Errors
    /// [`Error::Io`] if the host has no descriptor left.
    pub fn new() -> Result<Self> {
        let made = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        made.map(Self).map_err(|why| Error::io("making the descriptor of a queue", why.into()))
    }

    /// Makes the descriptor readable until [`Self::clear`].
    pub fn signal(&self) {
        if !planted!("disk: queue does not signal its descriptor") {
            // A counter at its limit refuses the write, and is readable.
            let _ = write(&self.0, &1_u64.to_ne_bytes());
        }
    }

    /// Makes the descriptor unreadable. A queue clears the event before it looks for completions, so that it misses none.
    pub fn clear(&self) {
        let _ = read(&self.0, &mut [0_u8; 8]);
    }
}

impl AsFd for ReadyEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Waits until `descriptor` is readable. A signal may end a wait with a limit early.
///
/// # Errors
/// [`Error::Io`] if the host refuses to wait.
pub(crate) fn wait_until_readable(descriptor: BorrowedFd<'_>, wait: Wait) -> Result<()> {
    let limit = match wait {
        Wait::No => return Ok(()),
        Wait::AtMost(limit) => Timespec::try_from(limit).ok(),
        Wait::Forever => None,
    };
    match poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], limit.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(why) => Err(Error::io("waiting for a queue", why.into())),
    }
}
