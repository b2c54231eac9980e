//! A descriptor that is about to be closed, or replaced by a copy of another one. Other threads may be using it until the
//! kernel has done that, and its number may be another file's at once. So from before the kernel's call until after it all
//! that is done by the number is the kernel's, which has the offset (LD2, LD3).

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use ferrite_medium::pin;

use crate::description::Description;
use crate::file::wait_a_little;
use crate::limbo;
use crate::table::{self, Taken};

/// Stands for every descriptor that departs.
static GATE: OnceLock<Arc<Description>> = OnceLock::new();

/// Before there is any.
pub fn prepare() {
    let _ = GATE.set(Arc::new(Description::gate()));
}

/// From now on all by `fd` is the kernel's.
pub fn leave_to_kernel(fd: c_int) {
    if let Some(gate) = GATE.get() {
        table::put(fd, Arc::clone(gate));
    }
}

/// Dropped, nothing stands for the descriptor any more.
pub struct Departure {
    fd: c_int,
    /// What stood for it, which goes when the kernel is done.
    before: Option<Taken>,
}

impl Departure {
    /// `fd` is about to be closed; `None` where it is none of ours.
    pub fn of_closed(fd: c_int) -> Option<Self> {
        let appends = table::held(fd).map(|it| {
            it.leave(fd);
            it.appends()
        })?;
        let departure = Self::begin(fd);
        if appends {
            // Who appends moves the kernel's offset, by a number that may be another file's soon.
            wait();
        }
        Some(departure)
    }

    /// `fd` is about to be another file. What was begun by it is waited for, but not for long: it would be done in part to
    /// one file and in part to the other.
    pub fn of_replaced(fd: c_int) -> Self {
        let before = table::held(fd);
        if let Some(it) = &before {
            it.lodge(fd);
        }
        let departure = Self::begin(fd);
        if let Some(it) = before {
            wait();
            wait_a_little(|| it.is_idle());
        }
        departure
    }

    fn begin(fd: c_int) -> Self {
        Self { fd, before: GATE.get().and_then(|gate| table::exchange(fd, Arc::clone(gate))) }
    }

    /// It stays what it was.
    pub fn stays(self) {
        if let Some(before) = self.before.as_ref().and_then(Taken::kept) {
            table::put(self.fd, before);
        }
    }
}

impl Drop for Departure {
    fn drop(&mut self) {
        // What has come in its place stays.
        if let Some(gate) = GATE.get() {
            table::remove(self.fd, gate);
        }
    }
}

/// Waits for who is pinned, unless that is what a handler of a signal has interrupted (LD5).
fn wait() {
    if pin().seat().is_some() {
        limbo::wait();
    }
}
