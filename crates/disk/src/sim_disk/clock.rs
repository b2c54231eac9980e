//! The time by which simulated disks wait, which is passed in.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A clock that can be waited for.
pub trait Clock: Send + Sync {
    /// Nanoseconds since an instant of its own; never falls.
    fn now_ns(&self) -> u64;

    /// Returns when [`Clock::now_ns`] is `until_ns` or more.
    fn wait_until_ns(&self, until_ns: u64);

    /// Returns true if time passes by itself, as on the host. Otherwise it passes while a caller waits for it.
    fn passes(&self) -> bool {
        true
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now_ns(&self) -> u64 {
        (**self).now_ns()
    }

    fn wait_until_ns(&self, until_ns: u64) {
        (**self).wait_until_ns(until_ns);
    }

    fn passes(&self) -> bool {
        (**self).passes()
    }
}

/// A clock that jumps to the time that is waited for: an hour of a disk's time in a second of a test's, or of a
/// calculation's. Shared by threads, it jumps to the latest time that any of them waits for.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// Lets time pass without requests.
    pub fn pass_ns(&self, ns: u64) {
        self.0.fetch_add(ns, Ordering::SeqCst);
    }
}

impl Clock for VirtualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    fn wait_until_ns(&self, until_ns: u64) {
        self.0.fetch_max(until_ns, Ordering::SeqCst);
    }

    fn passes(&self) -> bool {
        false
    }
}
