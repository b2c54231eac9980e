//! The gate that every change of a service passes, so that a backup can copy a still pool.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// Open, or closed for a while.
#[derive(Debug, Default)]
pub struct ChangeGate {
    is_closed: AtomicBool,
    closed: Mutex<bool>,
    opened: Condvar,
}

impl ChangeGate {
    /// What `take` gives while the gate is open: a lock or a pin, which is had for as long as something is being stored.
    /// Nothing of it is in hand while this waits.
    #[inline]
    pub fn pass<T>(&self, take: impl Fn() -> T) -> T {
        loop {
            let taken = take();
            if !self.is_closed.load(Ordering::Relaxed) {
                return taken;
            }
            drop(taken);
            self.wait();
        }
    }

    /// Waits until it is open.
    #[cold]
    pub fn wait(&self) {
        self.opened.wait_while(&mut self.closed.lock(), |closed| *closed);
    }

    /// Closes it. Nobody is inside when the closer has taken the same lock, or waited for pins, afterwards.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Opens it again.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
        *self.closed.lock() = false;
        self.opened.notify_all();
    }
}
