//! A disk that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Access, Completion, Disk, Geometry, LayeredQueue, NotedRequest, Op, Queue, QueueLayer, Run, Zeroing};
use ferrite_memory::shard::{Padded, SHARDS, own_shard};
use ferrite_memory::{Borrower, LatencyCounts, LatencyHistogram, Lent, Result, Span};

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

/// Counters of one shard, in the order of the fields of [`DiskStats`].
type Counters = [AtomicU64; 11];

const READS: usize = 0;
const WRITES: usize = 2;
const FLUSHES: usize = 4;
const FUA: usize = 5;
const TRIMS: usize = 6;
const ZEROINGS: usize = 8;
const ERRORS: usize = 10;

/// The operations of a disk, as [`StatsDisk::latencies`] orders them.
pub const TIMED_OPS: [&str; 5] = ["read", "write", "flush", "trim", "zero"];

/// Counts the requests to the disk under it.
pub struct StatsDisk<D> {
    inner: D,
    counters: Arc<DiskCounters>,
}

/// The counters of a disk and its queues.
#[derive(Default)]
struct DiskCounters {
    sums: [Padded<Counters>; SHARDS],
    timing: Option<DiskTiming>,
}

/// The clock, and the latencies of each operation.
struct DiskTiming {
    now_ns: fn() -> u64,
    latencies: [LatencyHistogram; TIMED_OPS.len()],
}

impl<D: Disk> StatsDisk<D> {
    /// `inner`, counted from now on.
    pub fn new(inner: D) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// `inner`, counted and timed from now on, by a clock that returns nanoseconds.
    pub fn timed(inner: D, now_ns: fn() -> u64) -> Self {
        let timing = Some(DiskTiming { now_ns, latencies: Default::default() });
        Self { inner, counters: Arc::new(DiskCounters { timing, ..DiskCounters::default() }) }
    }

    /// The disk under it.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts; while requests run, each is right and their sum may lag.
    pub fn stats(&self) -> DiskStats {
        let sum = |i: usize| self.counters.sums.iter().map(|shard| shard.0[i].load(Ordering::Relaxed)).sum();
        DiskStats {
            reads: sum(READS),
            read_bytes: sum(READS + 1),
            writes: sum(WRITES),
            written_bytes: sum(WRITES + 1),
            flushes: sum(FLUSHES),
            fua: sum(FUA),
            trims: sum(TRIMS),
            trimmed_bytes: sum(TRIMS + 1),
            zeroings: sum(ZEROINGS),
            zeroed_bytes: sum(ZEROINGS + 1),
            errors: sum(ERRORS),
        }
    }

    /// The latencies of each of [`TIMED_OPS`], failed requests included; `None` if the disk is not timed.
    pub fn latencies(&self) -> Option<[LatencyCounts; TIMED_OPS.len()]> {
        let timing = self.counters.timing.as_ref()?;
        Some(timing.latencies.each_ref().map(LatencyHistogram::counts))
    }
}

impl DiskCounters {
    fn add(&self, counter: usize, amount: u64) {
        self.sums[own_shard()].0[counter].fetch_add(amount, Ordering::Relaxed);
    }

    fn now_ns(&self) -> u64 {
        self.timing.as_ref().map_or(0, |timing| (timing.now_ns)())
    }

    /// Counts the latency of a request that began at `begun_ns`.
    fn time(&self, op: Op, begun_ns: u64) {
        let Some(timing) = &self.timing else { return };
        let timed = match op {
            Op::Read => 0,
            Op::Write(_) => 1,
            Op::Flush => 2,
            Op::Trim(_) => 3,
            Op::Zero(_) => 4,
        };
        timing.latencies[timed].count((timing.now_ns)().saturating_sub(begun_ns));
    }

    /// Does `work`, which touches `bytes`, and counts it.
    #[inline]
    fn counted(&self, op: Op, bytes: u64, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let begun_ns = self.now_ns();
        let done = work();
        self.time(op, begun_ns);
        self.count(op, bytes, done)
    }

    /// Counts a request that touched `bytes` and ended with `result`, which it returns.
    fn count(&self, op: Op, bytes: u64, result: Result<()>) -> Result<()> {
        let (kind, access) = match op {
            _ if result.is_err() => (ERRORS, Access::Cached),
            Op::Read => (READS, Access::Cached),
            Op::Write(access) => (WRITES, access),
            Op::Flush => (FLUSHES, Access::Cached),
            Op::Trim(access) => (TRIMS, access),
            Op::Zero(how) => (ZEROINGS, how.access),
        };
        self.add(kind, 1);
        if !matches!(kind, FLUSHES | ERRORS) {
            // The bytes of a kind are in the counter after it.
            self.add(kind + 1, bytes);
        }
        if access == Access::Fua {
            self.add(FUA, 1);
        }
        result
    }
}

impl QueueLayer for Arc<DiskCounters> {
    fn now_ns(&self) -> u64 {
        DiskCounters::now_ns(self)
    }

    fn complete(&mut self, request: NotedRequest, completion: &mut Completion) {
        self.time(request.op, request.begun_ns);
        let result = std::mem::replace(&mut completion.result, Ok(()));
        completion.result = self.count(request.op, request.touched.len, result);
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
        let begun_ns = self.counters.now_ns();
        let lent = self.inner.lend(span, least_bytes, borrower)?;
        self.counters.time(Op::Read, begun_ns);
        self.counters.add(READS, 1);
        self.counters.add(READS + 1, lent.len);
        Some(lent)
    }
}
