//! A disk that takes longer.

use crate::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Result, Span};

/// What each kind of request takes beyond its own time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// A read.
    pub read_ns: u64,
    /// A write, trim or zeroing.
    pub write_ns: u64,
    /// A flush.
    pub flush_ns: u64,
}

/// Waits after each request, before it completes.
pub struct DelayDisk<D, S> {
    inner: D,
    delay: Delay,
    sleep_ns: S,
}

impl<D: Disk, S: Fn(u64) + Send + Sync> DelayDisk<D, S> {
    /// `inner`, with `sleep_ns` called to wait for that many nanoseconds.
    pub fn new(inner: D, delay: Delay, sleep_ns: S) -> Self {
        Self { inner, delay, sleep_ns }
    }

    fn after<T>(&self, delay_ns: u64, done: T) -> T {
        if delay_ns > 0 {
            (self.sleep_ns)(delay_ns);
        }
        done
    }
}

impl<D: Disk, S: Fn(u64) + Send + Sync> Disk for DelayDisk<D, S> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.after(self.delay.read_ns, self.inner.read(at, into))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.write(at, from, access))
    }

    fn flush(&self) -> Result<()> {
        self.after(self.delay.flush_ns, self.inner.flush())
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.trim(span, access))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.after(self.delay.write_ns, self.inner.write_zeroes(span, how))
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.inner.extents(span)
    }
}
