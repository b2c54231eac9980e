//! A queue whose requests threads execute, for disks that block and hosts that have nothing better.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use ferrite_memory::{Result, planted};

use crate::ready_event::wait_until_readable;
use crate::{Completion, Disk, Queue, ReadyEvent, Request, Wait};

/// Most requests of one queue that are executed at once.
const THREADS_MAX: usize = 8;

/// Requests at a disk that blocks its callers. Threads start when requests wait, and end with the queue.
pub(crate) struct ThreadQueue<D> {
    disk: Arc<D>,
    shared: Arc<SharedJobs>,
    threads: Vec<JoinHandle<()>>,
    in_flight: usize,
}

struct SharedJobs {
    jobs: Mutex<Jobs>,
    /// Signals that a request waits, or that the queue closes.
    work: Condvar,
    ready: ReadyEvent,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Request>,
    ended: Vec<Completion>,
    /// Threads that wait for a request.
    idle: usize,
    closes: bool,
}

impl SharedJobs {
    fn lock(&self) -> MutexGuard<'_, Jobs> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes requests on `disk` until the queue closes.
    fn work(&self, disk: &dyn Disk) {
        while let Some(request) = self.next() {
            let completion = request.execute(disk);
            self.lock().ended.push(completion);
            self.ready.signal();
        }
    }

    /// Returns the next request, or None if the queue closes.
    fn next(&self) -> Option<Request> {
        let mut jobs = self.lock();
        loop {
            if jobs.closes {
                return None;
            }
            if let Some(request) = jobs.waiting.pop_front() {
                return Some(request);
            }
            jobs.idle += 1;
            jobs = self.work.wait(jobs).unwrap_or_else(PoisonError::into_inner);
            jobs.idle -= 1;
        }
    }
}

impl<D: Disk + 'static> ThreadQueue<D> {
    /// Opens a queue to `disk`.
    ///
    /// # Errors
    /// [`ferrite_memory::Error::Io`] if the host has no descriptor left.
    pub fn open(disk: D) -> Result<Self> {
        let shared = SharedJobs { jobs: Mutex::default(), work: Condvar::new(), ready: ReadyEvent::new()? };
        Ok(Self { disk: Arc::new(disk), shared: Arc::new(shared), threads: Vec::new(), in_flight: 0 })
    }

    /// Returns true if a thread was started.
    fn start_thread(&mut self) -> bool {
        let (shared, disk) = (Arc::clone(&self.shared), Arc::clone(&self.disk));
        let started = Builder::new().name("disk-queue".into()).spawn(move || shared.work(&*disk));
        started.map(|thread| self.threads.push(thread)).is_ok()
    }
}

impl<D: Disk + 'static> Queue for ThreadQueue<D> {
    fn submit(&mut self, request: Request) -> Option<Completion> {
        let is_busy = {
            let jobs = self.shared.lock();
            jobs.idle <= jobs.waiting.len()
        };
        if is_busy && self.threads.len() < THREADS_MAX && !self.start_thread() && self.threads.is_empty() {
            return Some(request.execute(&*self.disk));
        }
        self.shared.lock().waiting.push_back(request);
        self.in_flight += 1;
        self.shared.work.notify_one();
        None
    }

    fn collect(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> Result<usize> {
        let mut wait = if self.in_flight == 0 { Wait::No } else { wait };
        loop {
            self.shared.ready.clear();
            let ended = std::mem::take(&mut self.shared.lock().ended);
            if !ended.is_empty() || wait == Wait::No {
                let count = ended.len();
                self.in_flight -= count;
                completions.extend(ended);
                return Ok(count);
            }
            wait_until_readable(self.shared.ready.as_fd(), wait)?;
            wait = if wait == Wait::Forever { wait } else { Wait::No };
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.shared.ready.as_fd()
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl<D> Drop for ThreadQueue<D> {
    /// Waits for the requests that are being executed. Those that no thread has begun never begin.
    fn drop(&mut self) {
        self.shared.lock().closes = true;
        self.shared.work.notify_all();
        if planted!("disk: dropped queue does not wait") {
            return;
        }
        for thread in self.threads.drain(..) {
            // A thread that panicked has ended.
            let _ = thread.join();
        }
    }
}
