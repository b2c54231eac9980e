//! A descriptor that is about to be closed, or replaced by a copy of another one. Other threads may be using it until the
//! kernel has done that, and its number may be another file's at once. So from before the kernel's call until after it all
//! that is done by the number is the kernel's, which has the offset (LD2, LD3).

use std::ffi::c_int;
use std::sync::{Arc, OnceLock};

use crate::description::Description;
use crate::file::wait_a_little;
use crate::table;

/// Stands for every descriptor that departs.
static GATE: OnceLock<Arc<Description>> = OnceLock::new();

/// Before there is any.
pub fn prepare() {
    let _ = GATE.set(Arc::new(Description::gate()));
}

/// Dropped, nothing stands for the descriptor any more.
pub struct Departure {
    fd: c_int,
    before: Option<Arc<Description>>,
}

impl Departure {
    /// `fd` is about to be closed; `None` where it is none of ours.
    pub fn of_closed(fd: c_int) -> Option<Self> {
        let it = table::held(fd)?;
        it.leave(fd);
        Some(Self::begin(fd, Some(it)))
    }

    /// `fd` is about to be another file. What was begun by it is waited for, but not for long: it would be done in part to
    /// one file and in part to the other.
    pub fn of_replaced(fd: c_int) -> Self {
        let before = table::held(fd);
        if let Some(it) = &before {
            it.lodge(fd);
        }
        let departure = Self::begin(fd, before);
        if let Some(it) = &departure.before {
            wait_a_little(|| it.is_idle());
        }
        departure
    }

    fn begin(fd: c_int, before: Option<Arc<Description>>) -> Self {
        if let Some(gate) = GATE.get() {
            table::put(fd, Arc::clone(gate));
        }
        Self { fd, before }
    }

    /// It stays what it was.
    pub fn stays(mut self) {
        if let Some(before) = self.before.take() {
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
