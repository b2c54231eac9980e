//! A queue to a lying disk.

use std::os::fd::{AsFd, BorrowedFd};

use ferrite_disk::{Completion, Disk, Queue, ReadyEvent, Request, Wait};
use ferrite_memory::Result;

use super::LyingDisk;
use crate::interleave;

/// Requests of one queue in flight at a disk. They complete late, in any order (CL5), and are executed when they
/// complete. So the descriptor is readable while any is in flight.
pub(super) struct LyingQueue {
    disk: LyingDisk,
    number: u64,
    ready: ReadyEvent,
    in_flight: usize,
}

impl LyingQueue {
    /// Opens a queue to `disk`.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the host has no descriptor left.
    pub fn open(disk: LyingDisk) -> Result<Self> {
        let number = {
            let mut state = disk.state();
            state.queues += 1;
            state.queues
        };
        Ok(Self { disk, number, ready: ReadyEvent::new()?, in_flight: 0 })
    }

    /// Ends from `least` up to all requests of the queue.
    fn end_some(&self, least: u64) -> Vec<Request> {
        let state = &mut *self.disk.state();
        let is_own = |(number, _): &(u64, Request)| *number == self.number;
        let waiting = state.submitted.iter().filter(|request| is_own(request)).count() as u64;
        let least = least.min(waiting);
        let count = least + state.choices.below(waiting - least + 1);
        let end_one = |left: u64| {
            let chosen = state.choices.below(waiting - left) as usize;
            let own = state.submitted.iter().enumerate().filter(|(_, request)| is_own(request));
            let at = own.map(|(at, _)| at).nth(chosen).expect("one of those that wait");
            state.submitted.swap_remove(at).1
        };
        (0..count).map(end_one).collect()
    }
}

impl Queue for LyingQueue {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        if self.disk.check(request.touched()).is_err() {
            return Some(request.execute(&self.disk));
        }
        interleave::turn();
        self.disk.state().submitted.push((self.number, request));
        self.in_flight += 1;
        self.ready.signal();
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        interleave::turn();
        let ended = self.end_some(u64::from(wait != Wait::No));
        let count = ended.len();
        completions.extend(ended.into_iter().map(|request| request.execute(&self.disk)));
        self.in_flight -= count;
        if self.in_flight == 0 {
            self.ready.clear();
        }
        Ok(count)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for LyingQueue {
    /// Executes any part of the requests in flight, and cancels the others.
    fn drop(&mut self) {
        for request in self.end_some(0) {
            request.execute(&self.disk);
        }
        self.disk.state().submitted.retain(|(number, _)| *number != self.number);
    }
}
