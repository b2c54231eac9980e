//! Where changes of an object wait while its pool stands still.

use parking_lot::{Condvar, Mutex};

/// Closed while the pool stands still.
#[derive(Debug, Default)]
pub struct Still {
    is_closed: Mutex<bool>,
    opened: Condvar,
}

impl Still {
    /// Changes wait from now on.
    pub fn close(&self) {
        *self.is_closed.lock() = true;
    }

    /// They go on.
    pub fn open(&self) {
        *self.is_closed.lock() = false;
        self.opened.notify_all();
    }

    /// Waits until it is open. Whoever has the object's state lets go of it before.
    #[cold]
    pub fn wait(&self) {
        self.opened.wait_while(&mut self.is_closed.lock(), |is_closed| *is_closed);
    }
}
