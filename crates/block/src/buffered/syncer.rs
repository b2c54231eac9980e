//! The threads that drain buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use ferrite_disk::Disk;
use ferrite_memory::{Error, Result};

use super::{Buffered, DrainStep};

/// A thread for each buffer of a disk, which drains it when it passes its high watermark, until this is dropped. What
/// is still in the buffers then stays there: flush first.
pub struct Syncers<D: Disk + 'static> {
    disk: Arc<Buffered<D>>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl<D: Disk + 'static> Syncers<D> {
    /// Starts them.
    ///
    /// # Errors
    /// The system has no more threads to give.
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

/// Steps until told to stop. An error is no reason to end: whoever flushes meets it too, and is told.
fn run<D: Disk>(disk: &Buffered<D>, number: usize, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        if matches!(disk.step(number), Ok(DrainStep::Nothing) | Err(_)) {
            disk.syncer_wake(number).wait();
        }
    }
}

impl<D: Disk + 'static> Drop for Syncers<D> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        (0..self.disk.buffers()).for_each(|number| self.disk.syncer_wake(number).wake());
        for thread in self.threads.drain(..) {
            // One that panicked has told so itself.
            let _ = thread.join();
        }
    }
}
