//! The operations of objects that are counted, and their metrics.
//!
//! Reads are not counted: they copy from this process's own memory, and most take less time than a count.

use ferrite_memory::RequestTiming;
use ferrite_owner::{Metric, lease_metrics};
use ferrite_pool::holding::{LEASE_OPS, TagLease};
use ferrite_pool::{Pool, TagKind};

use crate::Result;

/// An operation of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectOp {
    /// A change of a value, a map, a queue or a bundle.
    Change,
    /// An append to a log, of one or more entries.
    Append,
    /// A checkpoint, by the program or because one was due. A change that takes a checkpoint contains it.
    Checkpoint,
    /// A cut of a log.
    Cut,
}

/// The names of the operations, in order.
const NAMES: [&str; LEASE_OPS] = ["change", "append", "checkpoint", "cut"];

/// The beginning of an operation.
pub(crate) struct ObjectTiming(ObjectOp, RequestTiming);

impl ObjectOp {
    /// Begins the operation on the object that `lease` holds.
    #[inline]
    pub fn begin(self, lease: &TagLease) -> ObjectTiming {
        ObjectTiming(self, lease.begin(self as usize))
    }
}

impl ObjectTiming {
    /// Counts the operation, which moved `bytes` and returned `done`, and returns `done`. The caller has the object's
    /// lock.
    #[inline]
    pub fn end<T>(self, lease: &TagLease, bytes: usize, done: Result<T>) -> Result<T> {
        lease.end_alone(self.0 as usize, self.1, done.is_ok().then_some(bytes as u64));
        done
    }
}

/// Returns the metrics of the objects in `pool`.
pub(crate) fn metrics(pool: &Pool) -> Vec<Metric> {
    lease_metrics(pool, TagKind::OBJECT, "object", "programs to an object", NAMES)
}
