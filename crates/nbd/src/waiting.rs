//! The time since which a connection waits for its client (N16). A thread stores it only before it sleeps, so a busy
//! connection reads no clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The beginning of a connection's current wait.
#[derive(Debug)]
pub(super) struct Waiting {
    start: Instant,
    /// Milliseconds from `start` to the beginning of the wait, plus one; 0 if the connection does not wait.
    since_ms: AtomicU64,
}

impl Waiting {
    pub fn new() -> Self {
        Self { start: Instant::now(), since_ms: AtomicU64::new(0) }
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Runs `work`, which waits for the client.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.since_ms.store(self.now_ms() + 1, Ordering::Relaxed);
        let done = work();
        self.since_ms.store(0, Ordering::Relaxed);
        done
    }

    /// Returns how long the connection has waited, or `None` if it does not wait.
    pub fn so_far(&self) -> Option<Duration> {
        let since_ms = self.since_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.now_ms().saturating_sub(since_ms)))
    }
}
