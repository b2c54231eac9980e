//! Counters of the requests of a mount.

use std::cell::Cell;
use std::fmt;

use ferrite_memory::{RequestCounters, RequestTotals};

/// The operations by which requests of a mount are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FuseOperation {
    /// Finding a name in a directory, and the kernel's forgetting of an inode.
    Lookup,
    /// Reading and changing attributes, also extended ones.
    Attributes,
    /// Opening and closing.
    Open,
    /// Reading a file.
    Read,
    /// Writing a file.
    Write,
    /// Making data durable.
    Sync,
    /// Listing a directory.
    List,
    /// Making, renaming and removing names.
    Names,
    /// All others.
    Other,
}

/// The names of the operations, in order.
const NAMES: [&str; 9] = ["lookup", "attributes", "open", "read", "write", "sync", "list", "names", "other"];

/// Counts the requests of one mount.
pub struct FuseCounters {
    now_ns: fn() -> u64,
    counters: [RequestCounters; NAMES.len()],
}

impl fmt::Debug for FuseCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FuseCounters").finish_non_exhaustive()
    }
}

thread_local! {
    /// The outcome of this thread's request so far: the bytes that it moved, or `None` if it failed.
    static OUTCOME: Cell<Option<u64>> = const { Cell::new(Some(0)) };
}

/// Notes that the request of this thread moved `bytes` of content.
pub fn note_moved(bytes: usize) {
    OUTCOME.set(Some(bytes as u64));
}

/// Notes that the request of this thread failed.
pub fn note_failed() {
    OUTCOME.set(None);
}

impl FuseCounters {
    /// Returns counters whose clock is `now_ns`, in nanoseconds.
    pub fn new(now_ns: fn() -> u64) -> Self {
        Self { now_ns, counters: Default::default() }
    }

    /// Answers a request by `answer`, which returns `None` if it panicked, and counts the request.
    pub fn count(&self, operation: FuseOperation, answer: impl FnOnce() -> Option<()>) {
        OUTCOME.set(Some(0));
        let counters = &self.counters[operation as usize];
        let timing = counters.begin(self.now_ns);
        let answered = answer();
        counters.end(timing, self.now_ns, answered.and_then(|()| OUTCOME.get()));
    }

    /// Returns the counts of each operation, with its name.
    pub fn totals(&self) -> impl Iterator<Item = (&'static str, RequestTotals)> {
        NAMES.into_iter().zip(self.counters.iter().map(RequestCounters::totals))
    }
}

#[cfg(test)]
mod tests;
