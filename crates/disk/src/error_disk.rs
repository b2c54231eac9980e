//! A disk that fails when told to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::{Access, Disk, Geometry, Run, Zeroing};
use ferrite_memory::{Error, Result, Span};

/// Which requests fail. Requests are counted from 0, refused ones too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trigger {
    /// None.
    #[default]
    Never,
    /// The request of this number alone.
    Request(u64),
    /// The request of this number and all after it, as when a disk dies.
    From(u64),
    /// Those that touch a byte of the span.
    Touching(Span),
}

/// Fails chosen requests, which then change nothing.
pub struct ErrorDisk<D> {
    inner: D,
    trigger: Mutex<Trigger>,
    requests: AtomicU64,
    error: Box<dyn Fn() -> Error + Send + Sync>,
}

impl<D: Disk> ErrorDisk<D> {
    /// `inner`, whose requests chosen by `trigger` fail with what `error` makes.
    pub fn new(inner: D, trigger: Trigger, error: impl Fn() -> Error + Send + Sync + 'static) -> Self {
        Self { inner, trigger: Mutex::new(trigger), requests: AtomicU64::new(0), error: Box::new(error) }
    }

    /// Requests so far: the bound of a sweep that fails each in turn.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Changes which requests fail.
    pub fn set(&self, trigger: Trigger) {
        *self.trigger.lock().unwrap_or_else(PoisonError::into_inner) = trigger;
    }

    fn admit(&self, span: Span) -> Result<()> {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let fails = match *self.trigger.lock().unwrap_or_else(PoisonError::into_inner) {
            Trigger::Never => false,
            Trigger::Request(chosen) => number == chosen,
            Trigger::From(first) => number >= first,
            Trigger::Touching(bad) => overlap(bad, span),
        };
        if fails { Err((self.error)()) } else { Ok(()) }
    }
}

fn overlap(a: Span, b: Span) -> bool {
    let end = |span: Span| span.end().unwrap_or(u64::MAX);
    a.len > 0 && b.len > 0 && a.at < end(b) && b.at < end(a)
}

impl<D: Disk> Disk for ErrorDisk<D> {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.admit(Span::new(at, into.len() as u64))?;
        self.inner.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.admit(Span::new(at, from.len() as u64))?;
        self.inner.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        self.admit(Span::new(0, 0))?;
        self.inner.flush()
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.admit(span)?;
        self.inner.trim(span, access)
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.admit(span)?;
        self.inner.write_zeroes(span, how)
    }

    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.admit(span)?;
        self.inner.extents(span)
    }
}
