//! The gate that every change of a service passes, so that a backup can copy a frozen pool.

use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};

/// A gate that is open, or closed for a while.
#[derive(Debug, Default)]
pub struct ChangeGate {
    is_closed: AtomicBool,
    closed: Mutex<bool>,
    opened: Condvar,
}

impl ChangeGate {
    /// Returns the result of `take`, called while the gate is open: a lock or a pin that the caller holds while it
    /// stores. This thread holds nothing while it waits.
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

    /// Returns the result of `take`, called while the gate is open, or `None` while it is closed.
    pub fn try_pass<T>(&self, take: impl FnOnce() -> T) -> Option<T> {
        let taken = take();
        (!self.is_closed.load(Ordering::Relaxed)).then_some(taken)
    }

    /// Waits until the gate is open.
    #[cold]
    pub fn wait(&self) {
        self.opened.wait_while(&mut self.closed.lock(), |closed| *closed);
    }

    /// Closes the gate. No thread is inside once the caller has acquired the same lock, or waited for the pins,
    /// afterwards.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.is_closed.store(true, Ordering::SeqCst);
    }

    /// Opens the gate.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
        *self.closed.lock() = false;
        self.opened.notify_all();
    }
}
