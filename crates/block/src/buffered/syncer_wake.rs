//! Waking a syncer.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

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
