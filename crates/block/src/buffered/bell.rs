//! What a thread waits for, and is woken by.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// Rings for one listener. A ring while it does not listen is heard when it listens next.
#[derive(Default)]
pub(super) struct Bell {
    is_rung: AtomicBool,
    lock: Mutex<()>,
    rings: Condvar,
}

impl Bell {
    /// Wakes the listener; a load where it was rung and not yet heard.
    pub fn ring(&self) {
        if !self.is_rung.load(Ordering::Relaxed) && !self.is_rung.swap(true, Ordering::AcqRel) {
            let _lock = self.lock.lock();
            self.rings.notify_all();
        }
    }

    /// Waits until it is rung, and forgets that it was.
    pub fn listen(&self) {
        let mut lock = self.lock.lock();
        while !self.is_rung.swap(false, Ordering::AcqRel) {
            self.rings.wait(&mut lock);
        }
    }
}
