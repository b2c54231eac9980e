//! What a thread waits for, and is woken by.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// Rings for one listener. A ring while it does not listen is heard when it listens next.
#[derive(Default)]
pub(super) struct SyncerWake {
    is_woken: AtomicBool,
    lock: Mutex<()>,
    woken: Condvar,
}

impl SyncerWake {
    /// Wakes the listener; a load where it was rung and not yet heard.
    pub fn wake(&self) {
        if !self.is_woken.load(Ordering::Relaxed) && !self.is_woken.swap(true, Ordering::AcqRel) {
            let _lock = self.lock.lock();
            self.woken.notify_all();
        }
    }

    /// Waits until it is rung, and forgets that it was.
    pub fn wait(&self) {
        let mut lock = self.lock.lock();
        while !self.is_woken.swap(false, Ordering::AcqRel) {
            self.woken.wait(&mut lock);
        }
    }
}
