//! Since when a connection waits for its client (N16). Noted only before the thread sleeps, so that a busy connection reads
//! no clock for it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Since when.
#[derive(Debug)]
pub(super) struct Waiting {
    start: Instant,
    /// Milliseconds since `start`, and one more; 0 while the connection waits for nothing.
    since_ms: AtomicU64,
}

impl Waiting {
    pub fn new() -> Self {
        Self { start: Instant::now(), since_ms: AtomicU64::new(0) }
    }

    fn now_ms(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    /// Does `work`, which waits for the client.
    pub fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        self.since_ms.store(self.now_ms() + 1, Ordering::Relaxed);
        let done = work();
        self.since_ms.store(0, Ordering::Relaxed);
        done
    }

    /// For how long it has waited, if it does.
    pub fn so_far(&self) -> Option<Duration> {
        let since_ms = self.since_ms.load(Ordering::Relaxed).checked_sub(1)?;
        Some(Duration::from_millis(self.now_ms().saturating_sub(since_ms)))
    }
}
