//! The gate that every change of a disk passes, so that a backup can copy a still pool.

use std::sync::atomic::{AtomicBool, Ordering};

use ferrite_medium::{Pin, pin, wait_for_pins};
use parking_lot::{Condvar, Mutex};

/// Open, or closed for a while.
#[derive(Default)]
pub(crate) struct Gate {
    is_closed: AtomicBool,
    closed: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    /// Passes the gate; whoever closes it waits until the pass is dropped. The caller is not pinned.
    #[inline]
    pub fn pass(&self) -> Pin {
        loop {
            let pass = pin();
            if !self.is_closed.load(Ordering::Relaxed) {
                return pass;
            }
            drop(pass);
            self.wait();
        }
    }

    #[cold]
    fn wait(&self) {
        let mut closed = self.closed.lock();
        self.opened.wait_while(&mut closed, |closed| *closed);
    }

    /// Closes it; nobody is inside on return.
    pub fn close(&self) {
        *self.closed.lock() = true;
        self.is_closed.store(true, Ordering::SeqCst);
        wait_for_pins();
    }

    /// Opens it again.
    pub fn open(&self) {
        self.is_closed.store(false, Ordering::SeqCst);
        *self.closed.lock() = false;
        self.opened.notify_all();
    }
}
