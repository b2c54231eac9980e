//! Failures of writes of segments, one behind another (TI12).

use std::sync::atomic::{AtomicU32, Ordering};

use ferrite_memory::planted;
use parking_lot::Mutex;

use crate::Error;

/// Failures in a row after which writes rest.
const FAILURES_MAX: u32 = 3;

/// The failures since the last write that succeeded.
#[derive(Debug, Default)]
pub(crate) struct WriteFailures {
    count: AtomicU32,
    why: Mutex<Option<String>>,
}

impl WriteFailures {
    /// Returns true unless so many writes have failed that no segment is written.
    pub fn may_write(&self) -> bool {
        self.count.load(Ordering::Relaxed) < FAILURES_MAX || planted!("fs: endless failures")
    }

    /// Returns the error after which writes rest, until a write succeeds or a slot is freed.
    pub fn why(&self) -> Option<String> {
        self.why.lock().clone()
    }

    /// Counts a failure.
    pub fn note(&self, error: &Error) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if !self.may_write() {
            *self.why.lock() = Some(error.to_string());
        }
    }

    /// Allows one more write.
    pub fn allow_one(&self) {
        self.count.store(FAILURES_MAX - 1, Ordering::Relaxed);
    }

    /// Forgets the failures: a write succeeded, or what failed may be possible now.
    pub fn forget(&self) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.count.store(0, Ordering::Relaxed);
            *self.why.lock() = None;
        }
    }
}
