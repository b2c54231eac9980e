//! The counts of the operations on one log.

use std::sync::Arc;

use ferrite_pool::holding::{LEASE_OPS, LentCounters};

use crate::Result;

/// An operation on a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogOp {
    Read,
    Write,
    /// A wait for durability, also if a fence made the writes durable before.
    Sync,
    /// Creating, truncating and deleting a file.
    Names,
}

/// The names of the operations, in order.
pub(super) const LOG_OPS: [&str; LEASE_OPS] = ["read", "write", "sync", "names"];

/// The counters of one log, which the owner of the pool reads, and a clock in nanoseconds.
#[derive(Clone)]
pub(super) struct LogCounts {
    /// `None` if the owner shares none.
    pub counters: Option<Arc<LentCounters>>,
    pub now_ns: fn() -> u64,
}

impl LogCounts {
    /// Does `work`, which stores the bytes that it moves, and counts it.
    pub fn counted<T>(&self, op: LogOp, work: impl FnOnce(&mut usize) -> Result<T>) -> Result<T> {
        let mut moved = 0;
        let Some(counters) = self.counters.as_ref().and_then(|counters| counters.of_op(op as usize)) else {
            return work(&mut moved);
        };
        let timing = counters.begin(self.now_ns);
        let done = work(&mut moved);
        counters.end(timing, self.now_ns, done.is_ok().then_some(moved as u64));
        done
    }
}
