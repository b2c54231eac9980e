//! The jobs of one queue, and the event that wakes its owner (C8).

use std::os::fd::OwnedFd;
use std::sync::Arc;

use ferrite_memory::planted;

/// The jobs of a queue that its owner has not collected.
#[derive(Debug)]
pub(super) struct QueueJobs {
    /// Number of jobs without an end.
    pending: usize,
    /// Numbers of the jobs that ended, in the order of their ends.
    ended: Vec<u64>,
    /// True while the owner collects: it needs no event then.
    is_collecting: bool,
    event: Arc<OwnedFd>,
    is_event_set: bool,
}

impl QueueJobs {
    /// Creates the state of a queue without jobs.
    pub fn new(event: Arc<OwnedFd>) -> Self {
        Self { pending: 0, ended: Vec::new(), is_collecting: false, event, is_event_set: false }
    }

    /// Records that a job was submitted.
    pub fn begin(&mut self) {
        self.pending += 1;
    }

    /// Records that the job `number` has ended, and wakes the owner.
    pub fn end(&mut self, number: u64) {
        self.pending -= 1;
        self.ended.push(number);
        self.wake();
    }

    /// Wakes the owner unless it collects.
    pub fn wake(&mut self) {
        if !self.is_collecting && !self.is_event_set && !planted!("nbd: a completion does not wake its queue") {
            // A write of 1 to an event fails only if the event is set already.
            let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
            self.is_event_set = true;
        }
    }

    /// Records that the owner collects, until [`QueueJobs::take_ended`].
    pub fn begin_collecting(&mut self) {
        self.is_collecting = true;
    }

    /// Returns true if a job has ended.
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns true if every job has ended.
    pub fn is_idle(&self) -> bool {
        self.pending == 0
    }

    /// Removes and returns the jobs that have ended.
    pub fn take_ended(&mut self) -> Vec<u64> {
        self.is_collecting = false;
        if std::mem::take(&mut self.is_event_set) {
            // The event is set, so the read does not wait, and empties it.
            let _ = rustix::io::read(&*self.event, &mut [0; 8]);
        }
        std::mem::take(&mut self.ended)
    }
}
