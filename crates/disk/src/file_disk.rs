//! A file or a block device of the host as a disk.
//!
//! Requests bypass the host's page cache where it lets them, through an aligned buffer where the caller's is not.
#![allow(unsafe_code, reason = "pwritev2, fallocate, lseek and the discard ioctl")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use crate::disk::write_zeros_slowly;
use crate::thread_queue::ThreadQueue;
use crate::{Access, Disk, Geometry, Queue, Run, Zeroing};
use ferrite_memory::{Error, HostSync, Result, Span, planted};

mod aligned;
mod probe;
mod ring;
mod ring_queue;
#[cfg(test)]
mod tests;

use aligned::Aligned;
use probe::DirectUnits;
use ring_queue::RingQueue;

/// How to open a [`FileDisk`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileDiskOptions {
    /// Refuse every change.
    pub read_only: bool,
    /// Go through the host's page cache even where direct I/O works.
    pub buffered: bool,
    /// Execute the requests of queues in threads even if the kernel has io_uring.
    pub thread_queues: bool,
}

/// A file or block device. After a flush, or a write with FUA, has failed every later flush fails, because the host forgets
/// what it lost.
///
/// If another program truncates the file, requests beyond its new end fail. Reads never return zeros for the bytes that
/// are gone, and writes do not make the file longer.
pub struct FileDisk {
    file: Arc<File>,
    path: Arc<Path>,
    geometry: Geometry,
    direct: Option<DirectUnits>,
    is_device: bool,
    host_sync: Arc<HostSync>,
    thread_queues: bool,
}

/// Bytes moved at once through an aligned buffer: a segment of a file system's SSD.
const BOUNCE_BYTES: usize = 512 << 10;
/// Runs told at once by `extents`.
const RUNS_MAX: usize = 1024;
/// Linux's request number of `BLKDISCARD`, `_IO(0x12, 119)`.
const DISCARD: u64 = 0x1277;

impl FileDisk {
    /// Opens what `path` names; a block device exclusively. A last part that fills no sector is left out.
    ///
    /// A lock (`flock`) keeps other disks away until this one and its queues are gone: all others if this one may write,
    /// else those that may write.
    ///
    /// # Errors
    /// [`Error::Io`] where the system refuses, also a file or device that is mounted or open elsewhere;
    /// [`Error::Unsupported`] for what is neither file nor block device, or has sectors of more than 4096 bytes.
    pub fn open(path: &Path, options: &FileDiskOptions) -> Result<Self> {
        let opened = probe::open(path, options)?;
        let sector_bytes = opened.sector_bytes;
        let geometry = Geometry {
            size: opened.size / u64::from(sector_bytes) * u64::from(sector_bytes),
            sector_bytes,
            atomic_bytes: if opened.is_device { sector_bytes } else { 1 },
            preferred_bytes: 4096,
            volatile_cache: true,
            read_only: options.read_only,
            trim: opened.trim,
            identity: [0; 16],
        };
        Ok(Self {
            file: Arc::new(opened.file),
            path: path.into(),
            geometry,
            direct: opened.direct,
            is_device: opened.is_device,
            host_sync: Arc::default(),
            thread_queues: options.thread_queues,
        })
    }

    /// Returns the same open file for a queue, which may outlive this value.
    fn share(&self) -> Self {
        Self {
            file: Arc::clone(&self.file),
            path: Arc::clone(&self.path),
            geometry: self.geometry.clone(),
            host_sync: Arc::clone(&self.host_sync),
            ..*self
        }
    }

    /// Whether requests bypass the host's page cache.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    fn check_change(&self, span: Span) -> Result<()> {
        self.check(span)?;
        if self.geometry.read_only {
            return Err(Error::ReadOnly);
        }
        if planted!("disk: write extends a truncated file") {
            return Ok(());
        }
        self.missing_bytes(span).map_or(Ok(()), |why| Err(self.failed("changing", span, why)))
    }

    /// Returns an error if another program has truncated the file so far that it does not hold `span`.
    fn missing_bytes(&self, span: Span) -> Option<io::Error> {
        if self.is_device || span.len == 0 {
            return None;
        }
        let size = match self.file.metadata() {
            Ok(about) => about.len(),
            Err(why) => return Some(why),
        };
        let what = || format!("another program truncated the file to {size} bytes: restore it, then open it again");
        (!span.fits(size)).then(|| io::Error::new(io::ErrorKind::UnexpectedEof, what()))
    }

    fn failed(&self, doing: &str, span: Span, why: io::Error) -> Error {
        let why = self.missing_bytes(span).unwrap_or(why);
        Error::io(format!("{doing} {} bytes at {} of {}", span.len, span.at, self.path.display()), why)
    }

    /// Returns the error of a failed write. After a lost durable write every later flush fails.
    fn write_failed(&self, span: Span, access: Access, why: io::Error) -> Error {
        // Of what bypasses the cache a full host has lost nothing but this.
        if access == Access::Fua && !(self.is_direct() && is_full(&why)) {
            self.host_sync.doubt(&why);
        }
        self.failed("writing", span, why)
    }

    /// The address unit, where a buffer at `address` would be refused.
    fn bounce_unit(&self, address: *const u8) -> Option<usize> {
        self.direct.map(|units| units.address).filter(|unit| !(address as usize).is_multiple_of(*unit))
    }

    fn read_bounced(&self, at: u64, into: &mut [u8], unit: usize) -> io::Result<()> {
        let mut bounce = Aligned::new(into.len().min(BOUNCE_BYTES), unit);
        let mut at = at;
        for part in into.chunks_mut(BOUNCE_BYTES) {
            let staged = &mut bounce.bytes()[..part.len()];
            self.file.read_exact_at(staged, at)?;
            part.copy_from_slice(staged);
            at += part.len() as u64;
        }
        Ok(())
    }

    fn write_bounced(&self, at: u64, from: &[u8], access: Access, unit: usize) -> io::Result<()> {
        let mut bounce = Aligned::new(from.len().min(BOUNCE_BYTES), unit);
        let mut at = at;
        for part in from.chunks(BOUNCE_BYTES) {
            let staged = &mut bounce.bytes()[..part.len()];
            staged.copy_from_slice(part);
            self.write_all(at, staged, access)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn write_all(&self, mut at: u64, mut from: &[u8], access: Access) -> io::Result<()> {
        if access == Access::Cached {
            return self.file.write_all_at(from, at);
        }
        while !from.is_empty() {
            match self.write_durably(at, from) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => (at, from) = (at + count as u64, &from[count..]),
                Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    fn write_durably(&self, at: u64, from: &[u8]) -> io::Result<usize> {
        let part = libc::iovec { iov_base: from.as_ptr().cast_mut().cast(), iov_len: from.len() };
        // SAFETY: one vector over the caller's slice, which the call only reads.
        let count = unsafe { libc::pwritev2(self.file.as_raw_fd(), &part, 1, at as libc::off_t, libc::RWF_DSYNC) };
        usize::try_from(count).map_err(|_| io::Error::last_os_error())
    }

    fn allocate(&self, mode: i32, span: Span) -> io::Result<()> {
        let mode = mode | libc::FALLOC_FL_KEEP_SIZE;
        loop {
            // SAFETY: the call works on a descriptor of ours and touches no memory.
            let done = unsafe {
                libc::fallocate(self.file.as_raw_fd(), mode, span.at as libc::off_t, span.len as libc::off_t)
            };
            let why = io::Error::last_os_error();
            if done == 0 {
                return Ok(());
            }
            if why.kind() != io::ErrorKind::Interrupted {
                return Err(why);
            }
        }
    }

    fn discard(&self, span: Span) -> io::Result<()> {
        let range = [span.at, span.len];
        // SAFETY: the ioctl reads two 64-bit integers.
        let done = unsafe { libc::ioctl(self.file.as_raw_fd(), DISCARD as _, range.as_ptr()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Where data or a hole next begins, from `at`; `None` past the last data.
    fn seek(&self, at: u64, whence: i32) -> Result<Option<u64>> {
        // SAFETY: the call takes integers; nothing here uses the descriptor's own offset.
        let found = unsafe { libc::lseek(self.file.as_raw_fd(), at as libc::off_t, whence) };
        let why = io::Error::last_os_error();
        match why.raw_os_error() {
            _ if found >= 0 => Ok(Some(found as u64)),
            Some(libc::ENXIO) => Ok(None),
            _ => Err(self.failed("seeking", Span::new(at, 0), why)),
        }
    }

    fn finish(&self, access: Access) -> Result<()> {
        if access == Access::Fua { self.flush() } else { Ok(()) }
    }
}

fn is_unsupported(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::ENOTTY))
}

fn is_full(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

impl Disk for FileDisk {
    fn geometry(&self) -> Geometry {
        self.geometry.clone()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let span = Span::new(at, into.len() as u64);
        self.check(span)?;
        let done = match self.bounce_unit(into.as_ptr()) {
            None => self.file.read_exact_at(into, at),
            Some(unit) => self.read_bounced(at, into, unit),
        };
        done.map_err(|why| self.failed("reading", span, why))
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        let span = Span::new(at, from.len() as u64);
        self.check_change(span)?;
        let done = match self.bounce_unit(from.as_ptr()) {
            None => self.write_all(at, from, access),
            Some(unit) => self.write_bounced(at, from, access, unit),
        };
        done.map_err(|why| self.write_failed(span, access, why))
    }

    fn flush(&self) -> Result<()> {
        if self.geometry.read_only { Ok(()) } else { self.host_sync.sync(&self.file) }
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.check_change(span)?;
        if span.len == 0 || !self.geometry.trim {
            return Ok(());
        }
        let done = if self.is_device { self.discard(span) } else { self.allocate(libc::FALLOC_FL_PUNCH_HOLE, span) };
        match done {
            Err(why) if !is_unsupported(&why) => Err(self.failed("trimming", span, why)),
            _ => self.finish(access),
        }
    }

    /// Opens a queue by io_uring, or by threads if the kernel refuses io_uring.
    fn queue(&self) -> Result<Option<Box<dyn Queue>>> {
        if !self.thread_queues
            && let Ok(queue) = RingQueue::open(self.share())
        {
            return Ok(Some(Box::new(queue)));
        }
        Ok(Some(Box::new(ThreadQueue::open(self.share())?)))
    }

    /// On a device a hole is punched only where its hardware zeroes by itself, and zeroing a range may be as slow as
    /// writing; on a file both are quick.
    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.check_change(span)?;
        if span.len == 0 {
            return Ok(());
        }
        if how.fast && how.keep_space && self.is_device {
            return Err(Error::Unsupported("fast zeroes that keep their space on a device".into()));
        }
        let mode = if how.keep_space { libc::FALLOC_FL_ZERO_RANGE } else { libc::FALLOC_FL_PUNCH_HOLE };
        match self.allocate(mode, span) {
            Ok(()) => self.finish(how.access),
            Err(why) if is_unsupported(&why) && how.fast => Err(Error::Unsupported("fast zeroes".into())),
            Err(why) if is_unsupported(&why) => write_zeros_slowly(self, span, how.access),
            Err(why) => Err(self.failed("zeroing", span, why)),
        }
    }

    /// Returns the runs that the file system reports, which calls reserved but unwritten space a hole.
    fn extents(&self, span: Span) -> Result<Vec<Run>> {
        self.check(span)?;
        if self.is_device || span.len == 0 {
            return Ok(vec![Run { len: span.len, hole: false, zero: false }]);
        }
        let (mut at, end, mut runs) = (span.at, span.at + span.len, Vec::new());
        while at < end && runs.len() < RUNS_MAX {
            let data = self.seek(at, libc::SEEK_DATA)?.map_or(end, |found| found.min(end));
            let hole = data > at;
            let next = if hole { data } else { self.seek(at, libc::SEEK_HOLE)?.map_or(end, |found| found.min(end)) };
            runs.push(Run { len: next - at, hole, zero: hole });
            at = next;
        }
        Ok(runs)
    }
}
