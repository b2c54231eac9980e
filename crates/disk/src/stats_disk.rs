//! A disk that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Access, Completion, Disk, Geometry, LayeredQueue, Op, Queue, QueueLayer, Run, Zeroing};
use ferrite_memory::shard::{Padded, SHARDS, own_shard};
use ferrite_memory::{Borrower, Lent, Result, Span};

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

/// Counts the requests to the disk under it.
pub struct StatsDisk<D> {
    inner: D,
    counters: Arc<RequestCounters>,
}

/// The counters of a disk and its queues.
#[derive(Default)]
struct RequestCounters([Padded<Counters>; SHARDS]);

impl<D: Disk> StatsDisk<D> {
    /// `inner`, counted from now on.
    pub fn new(inner: D) -> Self {
        Self { inner, counters: Arc::default() }
    }

    /// The disk under it.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts; while requests run, each is right and their sum may lag.
    pub fn stats(&self) -> DiskStats {
        let sum = |i: usize| self.counters.0.iter().map(|shard| shard.0[i].load(Ordering::Relaxed)).sum();
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
}

impl RequestCounters {
    fn add(&self, counter: usize, amount: u64) {
        self.0[own_shard()].0[counter].fetch_add(amount, Ordering::Relaxed);
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

impl QueueLayer for Arc<RequestCounters> {
    fn complete(&mut self, op: Op, touched: Span, completion: &mut Completion) {
        let result = std::mem::replace(&mut completion.result, Ok(()));
        completion.result = self.count(op, touched.len, result);
    }
}

impl<D: Disk> Disk for StatsDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.counters.count(Op::Read, into.len() as u64, self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.counters.count(Op::Write(access), from.len() as u64, self.inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.counters.count(Op::Flush, 0, self.inner.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.counters.count(Op::Trim(access), span.len, self.inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.counters.count(Op::Zero(how), span.len, self.inner.write_zeroes(span, how))
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        LayeredQueue::open(&self.inner, Arc::clone(&self.counters))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    /// A read of what is lent.
    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let lent = self.inner.lend(span, least_bytes, borrower)?;
        self.counters.add(READS, 1);
        self.counters.add(READS + 1, lent.len);
        Some(lent)
    }
}
