//! A disk that counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Access, Disk, Geometry, Run, Zeroing};
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
    shards: [Padded<Counters>; SHARDS],
}

impl<D: Disk> StatsDisk<D> {
    /// `inner`, counted from now on.
    pub fn new(inner: D) -> Self {
        Self { inner, shards: Default::default() }
    }

    /// The disk under it.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// The counts; while requests run, each is right and their sum may lag.
    pub fn stats(&self) -> DiskStats {
        let sum = |i: usize| self.shards.iter().map(|shard| shard.0[i].load(Ordering::Relaxed)).sum();
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

    fn add(&self, counter: usize, amount: u64) {
        self.shards[own_shard()].0[counter].fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts a request of one kind and its bytes, which are in the counter after it.
    fn count(&self, kind: usize, bytes: u64, result: Result<()>) -> Result<()> {
        match result {
            Ok(()) => {
                self.add(kind, 1);
                self.add(kind + 1, bytes);
            }
            Err(_) => self.add(ERRORS, 1),
        }
        result
    }

    fn count_fua(&self, access: Access, result: Result<()>) -> Result<()> {
        if access == Access::Fua && result.is_ok() {
            self.add(FUA, 1);
        }
        result
    }
}

impl<D: Disk> Disk for StatsDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.count(READS, into.len() as u64, self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let done = self.count(WRITES, from.len() as u64, self.inner.write(at, from, access));
        self.count_fua(access, done)
    }

    fn flush(&self) -> Result<()> {
        let done = self.inner.flush();
        self.add(if done.is_ok() { FLUSHES } else { ERRORS }, 1);
        done
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        let done = self.count(TRIMS, span.len, self.inner.trim(span, access));
        self.count_fua(access, done)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        let done = self.count(ZEROINGS, span.len, self.inner.write_zeroes(span, how));
        self.count_fua(how.access, done)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    /// A read of what is lent.
    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let lent = self.inner.lend(span, least_bytes, borrower)?;
        self.add(READS, 1);
        self.add(READS + 1, lent.len);
        Some(lent)
    }
}
