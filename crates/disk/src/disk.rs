//! The second waist: block devices.
//!
//! - D1. A request that lies outside the disk or is not aligned to its sectors is refused as a whole.
//! - D2. When [`Disk::flush`] returns, every write, trim and zeroing that completed before the call is durable.
//! - D3. A request with `fua` is durable when it completes. Other requests are not promised to be.
//! - D4. If [`Geometry::volatile_cache`] is false, every write is durable when it completes.
//! - D5. A crash leaves each aligned [`Geometry::atomic_bytes`] unit old or new, never a mixture.
//! - D6. Lent bytes stay unchanged until the borrower reports that it has returned them. No request waits for that.

use std::sync::Arc;

use ferrite_memory::{Borrower, Error, Lent, Result, Span};

/// A disk's fixed properties.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size in bytes, a multiple of the sector size.
    pub size: u64,
    /// Smallest unit of a request in bytes: 512 or 4096.
    pub sector_bytes: u32,
    /// Largest aligned unit that a crash never tears, in bytes; at least 1 is always true.
    pub atomic_bytes: u32,
    /// Unit that is served best, in bytes.
    pub preferred_bytes: u32,
    /// Whether a completed write may be lost before a flush.
    pub volatile_cache: bool,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether trim gives space back.
    pub trim: bool,
    /// The identity of the disk, the same from run to run; zeros if it has no name.
    pub identity: [u8; 16],
}

/// How durable a changing request is when it completes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// After the next flush.
    #[default]
    Cached,
    /// When it completes (force unit access).
    Fua,
}

/// How to zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zeroing {
    /// Durability of the zeros.
    pub access: Access,
    /// Keep the space allocated, so that a later write cannot run out of it.
    pub keep_space: bool,
    /// Refuse with [`Error::Unsupported`] rather than be as slow as writing.
    pub fast: bool,
}

/// A run of bytes of one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Bytes in the run.
    pub len: u64,
    /// Whether it has no space allocated.
    pub hole: bool,
    /// Whether it reads as zeros.
    pub zero: bool,
}

/// The operation of a [`Request`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Fill the buffer from the disk.
    Read,
    /// Write the buffer.
    Write(Access),
    /// See [`Disk::flush`].
    Flush,
    /// See [`Disk::trim`].
    Trim(Access),
    /// See [`Disk::write_zeroes`].
    Zero(Zeroing),
}

/// A submitted request, which completes at once or later. It owns its buffer until then.
#[derive(Debug)]
pub struct Request {
    /// Given back in the completion.
    pub token: u64,
    /// What to do.
    pub op: Op,
    /// Where. For reads and writes the length is the buffer's.
    pub span: Span,
    /// Bytes to write, or space to read into.
    pub buffer: Vec<u8>,
}

impl Request {
    /// Returns the bytes that the request reads or changes: for reads and writes as many as the buffer has, for a flush
    /// none.
    pub fn touched(&self) -> Span {
        match self.op {
            Op::Read | Op::Write(_) => Span::new(self.span.at, self.buffer.len() as u64),
            Op::Flush => Span::new(0, 0),
            Op::Trim(_) | Op::Zero(_) => self.span,
        }
    }

    /// Executes the request on `disk` in the calling thread.
    pub fn execute<D: Disk + ?Sized>(mut self, disk: &D) -> Completion {
        let result = match self.op {
            Op::Read => disk.read(self.span.at, &mut self.buffer),
            Op::Write(access) => disk.write(self.span.at, &self.buffer, access),
            Op::Flush => disk.flush(),
            Op::Trim(access) => disk.trim(self.span, access),
            Op::Zero(how) => disk.write_zeroes(self.span, how),
        };
        self.complete(result)
    }

    /// Returns the completion of the request with `result`.
    pub fn complete(self, result: Result<()>) -> Completion {
        Completion { token: self.token, buffer: self.buffer, result }
    }
}

/// A finished request.
#[derive(Debug)]
pub struct Completion {
    /// The request's.
    pub token: u64,
    /// The request's buffer.
    pub buffer: Vec<u8>,
    /// How it went.
    pub result: Result<()>,
}

/// A block device. All lengths and offsets are bytes.
///
/// A request gives [`Error::OutOfRange`] where D1 refuses it, and one that changes something [`Error::ReadOnly`] on a
/// disk that is read-only: nothing is changed then. It gives [`Error::Io`] where what lies below fails, and what a
/// change left of its span is not known then. [`Error::Poisoned`] says that an earlier persist failed, and that nothing
/// more is promised until the disk is opened again.
pub trait Disk: Send + Sync {
    /// Its properties. Only the size may change while it is open, and only by growing.
    fn geometry(&self) -> Geometry;

    /// Reads `into.len()` bytes at `at`.
    ///
    /// # Errors
    /// [`Error::Damaged`] where a checksum says so; else as [`Disk`] says.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Writes `from` at `at`.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the write needs space and finds none; else the errors of [`Disk`].
    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()>;

    /// See D2.
    ///
    /// # Errors
    /// As [`Disk`] says: then what completed since the last flush may be lost.
    fn flush(&self) -> Result<()>;

    /// The content of `span` is not needed any more; it reads as zeros or as before.
    ///
    /// # Errors
    /// As [`Disk`] says. A disk that cannot trim does nothing, and that is no error.
    fn trim(&self, span: Span, access: Access) -> Result<()> {
        let _ = (span, access);
        Ok(())
    }

    /// `span` reads as zeros after it.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where `how` says to be fast and it would not be; else as [`Disk::write`].
    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        if how.fast {
            return Err(Error::Unsupported("fast zeroes".into()));
        }
        write_zeros_slowly(self, span, how.access)
    }

    /// The states of the runs of `span`, in order; may stop early, never empty for a non-empty span.
    ///
    /// # Errors
    /// As [`Disk`] says.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        Ok(vec![Run { len: span.len, hole: false, zero: false }])
    }

    /// Lends what a read of the start of `span` would give, from where it lies (D6), if the disk can: as much as lies
    /// there in one run, and no less than `least_bytes`.
    fn lend(&self, span: Span, least_bytes: u64, borrower: Arc<dyn Borrower>) -> Option<Lent<'_>> {
        let _ = (span, least_bytes, borrower);
        None
    }

    /// Opens a queue for the calling thread. None: the disk works in its caller's thread, and a queue gains nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the host refuses what the queue needs.
    fn queue(&self) -> Result<Option<Box<dyn crate::Queue>>> {
        Ok(None)
    }

    /// Refuses what rule D1 refuses.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn check(&self, span: Span) -> Result<()> {
        let Geometry { size, sector_bytes, .. } = self.geometry();
        if span.fits(size) && span.aligned_to(u64::from(sector_bytes)) {
            return Ok(());
        }
        Err(Error::OutOfRange { at: span.at, len: span.len, size, sector_bytes })
    }
}

/// Zeros by writing them, for disks that know no better.
pub(crate) fn write_zeros_slowly<D: Disk + ?Sized>(disk: &D, span: Span, access: Access) -> Result<()> {
    static ZEROS: [u8; 64 << 10] = [0; 64 << 10];
    disk.check(span)?;
    let (mut at, mut left) = (span.at, span.len);
    while left > 0 {
        let step = left.min(ZEROS.len() as u64);
        disk.write(at, &ZEROS[..step as usize], access)?;
        (at, left) = (at + step, left - step);
    }
    Ok(())
}
