//! A disk that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Access, Completion, Disk, Geometry, LayeredQueue, NotedRequest, Op, Queue, QueueLayer, Run, Zeroing};
use ferrite_memory::shard::{Padded, SHARDS, own_shard};
use ferrite_memory::{Borrower, Lent, RequestCounters, RequestTotals, Result, Span};

/// The requests of a disk. Failed requests count only as errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskStats {
    /// Reads.
    pub reads: u64,
    /// Bytes they gave.
    pub read_bytes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes they took.
    pub written_bytes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Writes, trims and zeroings with FUA.
    pub fua: u64,
    /// Trims.
    pub trims: u64,
    /// Bytes trimmed.
    pub trimmed_bytes: u64,
    /// Zeroings.
    pub zeroings: u64,
    /// Bytes zeroed.
    pub zeroed_bytes: u64,
    /// Requests that failed.
    pub errors: u64,
}

/// The operations of a disk, as [`StatsDisk::totals`] orders them.
pub const COUNTED_OPS: [&str; 5] = ["read", "write", "flush", "trim", "zero"];

/// Counts the requests to the disk under it.
pub struct StatsDisk<D> {
    inner: D,
    counters: Arc<DiskCounters>,
}

/// The counters of a disk and its queues.
struct DiskCounters {
    now_ns: fn() -> u64,
    ops: [RequestCounters; COUNTED_OPS.len()],
    fua: [Padded<AtomicU64>; SHARDS],
}

impl<D: Disk> StatsDisk<D> {
    /// `inner`, counted from now on. Every request takes no time.
    pub fn new(inner: D) -> Self {
        Self::timed(inner, || 0)
    }

    /// `inner`, counted and timed from now on, by a clock that returns nanoseconds.
    pub fn timed(inner: D, now_ns: fn() -> u64) -> Self {
        let (ops, fua) = Default::default();
        Self { inner, counters: Arc::new(DiskCounters { now_ns, ops, fua }) }
    }

    /// The disk under it.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts of each of [`COUNTED_OPS`]; while requests run, each is right and their sum may lag.
    pub fn totals(&self) -> [RequestTotals; COUNTED_OPS.len()] {
        self.counters.ops.each_ref().map(RequestCounters::totals)
    }

    /// The counts of all requests, as [`StatsDisk::totals`].
    pub fn stats(&self) -> DiskStats {
        let totals = self.totals();
        let done = totals.each_ref().map(|op| op.latency.count().saturating_sub(op.errors));
        let [reads, writes, flushes, trims, zeroings] = done;
        let [read_bytes, written_bytes, _, trimmed_bytes, zeroed_bytes] = totals.each_ref().map(|op| op.bytes);
        DiskStats {
            reads,
            read_bytes,
            writes,
            written_bytes,
            flushes,
            fua: self.counters.fua.iter().map(|shard| shard.0.load(Ordering::Relaxed)).sum(),
            trims,
            trimmed_bytes,
            zeroings,
            zeroed_bytes,
            errors: totals.iter().map(|op| op.errors).sum(),
        }
    }
}

impl DiskCounters {
    /// Counts a request that began at `begun_ns`, touched `bytes`, and succeeded or failed.
    #[inline]
    fn count(&self, op: Op, begun_ns: u64, bytes: u64, is_ok: bool) {
        let (counted, access) = match op {
            Op::Read => (0, Access::Cached),
            Op::Write(access) => (1, access),
            Op::Flush => (2, Access::Cached),
            Op::Trim(access) => (3, access),
            Op::Zero(how) => (4, how.access),
        };
        let taken_ns = (self.now_ns)().saturating_sub(begun_ns);
        self.ops[counted].count(taken_ns, is_ok.then_some(bytes));
        if is_ok && access == Access::Fua {
            self.fua[own_shard()].0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does `work`, which touches `bytes`, and counts it.
    #[inline]
    fn counted(&self, op: Op, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let begun_ns = (self.now_ns)();
        let done = work();
        self.count(op, begun_ns, bytes, done.is_ok());
        done
    }
}

impl QueueLayer for Arc<DiskCounters> {
    fn now_ns(&self) -> u64 {
        (self.now_ns)()
    }

    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        self.count(request.op, request.begun_ns, request.touched.len, completion.result.is_ok());
    }
}

impl<D: Disk> Disk for StatsDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.counters.counted(Op::Read, into.len() as u64, || self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.counters.counted(Op::Write(access), from.len() as u64, || self.inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.counters.counted(Op::Flush, 0, || self.inner.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.counters.counted(Op::Trim(access), span.len, || self.inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.counters.counted(Op::Zero(how), span.len, || self.inner.write_zeroes(span, how))
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        LayeredQueue::open(&self.inner, Arc::clone(&self.counters))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    /// A read of what is lent. Its latency ends when the bytes are found.
    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let begun_ns = (self.counters.now_ns)();
        let lent = self.inner.lend(span, least_bytes, borrower)?;
        self.counters.count(Op::Read, begun_ns, lent.len, true);
        Some(lent)
    }
}
