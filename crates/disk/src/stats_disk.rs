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
        let done = totals.each_ref().map(|op| op.requests.saturating_sub(op.errors));
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
    fn of(&self, op: Op) -> &RequestCounters {
        &self.ops[match op {
            Op::Read => 0,
            Op::Write(_) => 1,
            Op::Flush => 2,
            Op::Trim(_) => 3,
            Op::Zero(_) => 4,
        }]
    }

    /// Counts a request that succeeded, if its bytes are durable with it.
    #[inline]
    fn count_fua(&self, op: Op) {
        if let Op::Write(Access::Fua) | Op::Trim(Access::Fua) | Op::Zero(Zeroing { access: Access::Fua, .. }) = op {
            self.fua[own_shard()].0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Does `work`, which touches `bytes`, and counts it.
    #[inline]
    fn counted(&self, op: Op, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let counters = self.of(op);
        let timing = counters.begin(self.now_ns);
        let done = work();
        counters.end(timing, self.now_ns, done.is_ok().then_some(bytes));
        if done.is_ok() {
            self.count_fua(op);
        }
        done
    }
}

impl QueueLayer for Arc<DiskCounters> {
    fn now_ns(&self) -> u64 {
        (self.now_ns)()
    }

    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        let taken_ns = (self.now_ns)().saturating_sub(request.begun_ns);
        let is_ok = completion.result.is_ok();
        self.of(request.op).count(taken_ns, is_ok.then_some(request.touched.len));
        if is_ok {
            self.count_fua(request.op);
        }
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
        let (reads, now_ns) = (self.counters.of(Op::Read), self.counters.now_ns);
        let timing = reads.begin(now_ns);
        let lent = self.inner.lend(span, least_bytes, borrower)?;
        reads.end(timing, now_ns, Some(lent.len));
        Some(lent)
    }
}
