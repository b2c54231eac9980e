//! A disk that cannot be changed.

use std::sync::Arc;

use crate::{Access, Disk, Geometry, LayeredQueue, Op, Queue, QueueLayer, Request, Run, Zeroing};
use ferrite_memory::{Borrower, Error, Lent, Result, Span};

/// Refuses what would change the disk under it.
pub struct ReadOnlyDisk<D> {
    inner: D,
}

impl<D: Disk> ReadOnlyDisk<D> {
    /// `inner`, read-only from here on.
    pub fn new(inner: D) -> Self {
        Self { inner }
    }
}

/// Refuses the changes of a queue.
struct ReadOnlyLayer;

impl QueueLayer for ReadOnlyLayer {
    fn admit(&mut self, request: &Request) -> Result<()> {
        if matches!(request.op, Op::Read | Op::Flush) { Ok(()) } else { Err(Error::ReadOnly) }
    }
}

impl<D: Disk> Disk for ReadOnlyDisk<D> {
    fn geometry(&self) -> Geometry {
        Geometry { read_only: true, trim: false, ..self.inner.geometry() }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.inner.read(at, into)
    }

    fn write(&self, _: u64, _: &[u8], _: Access) -> Result<()> {
        Err(Error::ReadOnly)
    }

    /// Data written before the disk became read-only may still be in a cache.
    fn flush(&self) -> Result<()> {
        self.inner.flush()
    }

    fn trim(&self, _: Span, _: Access) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn write_zeroes(&self, _: Span, _: Zeroing) -> Result<()> {
        Err(Error::ReadOnly)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }

    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        LayeredQueue::open(&self.inner, ReadOnlyLayer)
    }

    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        self.inner.lend(span, least_bytes, borrower)
    }
}
