//! The threads that drain buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ferrite_disk::Disk;
use ferrite_memory::{Error, Result};
use parking_lot::{Condvar, Mutex};

use super::{Buffered, SyncerStep};

/// One thread for each buffer of a disk, until this value is dropped. A thread drains its buffer when the buffer passes
/// its high watermark. Pages that remain at the end stay in the buffers: flush first.
pub struct Syncers<D: Disk + 'static> {
    disk: Arc<Buffered<D>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<D: Disk + 'static> Syncers<D> {
    /// Starts the threads.
    ///
    /// # Errors
    /// [`Error::Io`] if the system starts no more threads.
    pub fn start(disk: Arc<Buffered<D>>) -> Result<Self> {
        let mut syncers = Self { disk, stop: Arc::default(), threads: Vec::new() };
        for number in 0..syncers.disk.buffers() {
            let (disk, stop) = (Arc::clone(&syncers.disk), Arc::clone(&syncers.stop));
            let thread = std::thread::Builder::new().name(format!("syncer-{number}"));
            let started = thread.spawn(move || run(&disk, number, &stop));
            syncers.threads.push(started.map_err(|error| Error::io("starting a syncer", error))?);
        }
        Ok(syncers)
    }
}

/// Steps until it is stopped. An error does not end the thread, because a flush meets and reports the same error.
fn run<D: Disk>(disk: &Buffered<D>, number: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if matches!(disk.step(number), Ok(SyncerStep::Nothing) | Err(_)) {
            disk.syncer_wake(number).wait();
        }
    }
}

impl<D: Disk + 'static> Drop for Syncers<D> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        (0..self.disk.buffers()).for_each(|number| self.disk.syncer_wake(number).wake());
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed its message.
            let _ = thread.join();
        }
    }
}

/// Wakes one waiting thread. A wake before the wait is not lost.
#[derive(Default)]
pub(super) struct SyncerWake {
    is_woken: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

impl SyncerWake {
    /// Wakes the waiting thread. If it was woken and has not run yet, this is one load.
    pub fn wake(&self) {
        if !self.is_woken.load(Ordering::Relaxed) && !self.is_woken.swap(true, Ordering::AcqRel) {
            let _lock = self.lock.lock();
            self.woken.notify_all();
        }
    }

    /// Waits until it is woken.
    pub fn wait(&self) {
        let mut lock = self.lock.lock();
        while !self.is_woken.swap(false, Ordering::AcqRel) {
            self.woken.wait(&mut lock);
        }
    }
}
