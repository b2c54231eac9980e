//! One disk as the only file of a FUSE file system, for the loop device.
//!
//! - AE1. A discard and a zeroing that may deallocate reach a loop device's file as the same call (punch a hole). So a
//!   punched span must read as zeros whatever [`Disk::trim`] leaves there.
//! - AE2. No request is ever answered with ENOSYS: the kernel would never send such a request again, and a flush that
//!   is never requested counts as successful.
//! - AE3. A flush is answered after [`Disk::flush`] returned, with its error.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use ferrite_disk::{Access, Disk, Run, Zeroing};
use ferrite_memory::{Error, Result, Span, planted};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, WriteFlags,
};

/// The inode of the file; the inode of the directory is FUSE's root inode.
const FILE: INodeNo = INodeNo(2);

/// Largest transfer in one request, in bytes; the kernel allows this size by default.
pub(super) const TRANSFER_BYTES: u32 = 1 << 20;

/// Requests that the kernel keeps in flight before it queues more: the depth of a loop device's queue.
pub(super) const IN_FLIGHT: u16 = 128;

/// Validity of a cached size. The kernel asks for the size each time, because a disk may grow.
const FRESH: Duration = Duration::ZERO;

/// A disk as a file.
pub(super) struct DiskFile {
    disk: Arc<dyn Disk>,
}

impl DiskFile {
    /// Creates the file that shows `disk`.
    pub fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    fn attributes(&self, inode: INodeNo) -> FileAttr {
        let geometry = self.disk.geometry();
        let is_file = inode == FILE;
        FileAttr {
            ino: inode,
            size: if is_file { geometry.size } else { 0 },
            blocks: if is_file { geometry.size / 512 } else { 0 },
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_file { FileType::RegularFile } else { FileType::Directory },
            perm: if is_file { 0o600 } else { 0o700 },
            nlink: if is_file { 1 } else { 2 },
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: geometry.sector_bytes,
            flags: 0,
        }
    }

    /// Returns the part of `span` that lies on the disk; a client may name bytes past the end.
    pub(super) fn clip(&self, span: Span) -> Span {
        let left = self.disk.geometry().size.saturating_sub(span.at);
        Span::new(span.at, span.len.min(left))
    }

    pub(super) fn allocate(&self, span: Span, mode: i32) -> Result<()> {
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            libc::FALLOC_FL_PUNCH_HOLE => self.punch(span),
            libc::FALLOC_FL_ZERO_RANGE => {
                self.disk.write_zeroes(span, Zeroing { keep_space: true, ..Zeroing::default() })
            }
            _ => Err(Error::Unsupported(format!("fallocate mode {mode:#x}"))),
        }
    }

    /// Frees the space, then zeros the parts that do not read as zeros yet (AE1).
    fn punch(&self, span: Span) -> Result<()> {
        self.disk.trim(span, Access::Cached)?;
        planted!("devnode: punched bytes stay" => return Ok(()));
        let mut rest = span;
        while rest.len > 0 {
            let mut runs = self.disk.extents(rest)?;
            if runs.is_empty() {
                runs.push(Run { len: rest.len, hole: false, zero: false });
            }
            for run in runs.into_iter().filter(|run| run.len > 0) {
                rest = self.zero_first(rest, run)?;
            }
        }
        Ok(())
    }

    /// Makes the part of `span` that `run` describes read as zeros; returns the part behind it.
    fn zero_first(&self, span: Span, run: Run) -> Result<Span> {
        let part = Span::new(span.at, run.len.min(span.len));
        if !run.zero && part.len > 0 {
            self.disk.write_zeroes(part, Zeroing::default())?;
        }
        Ok(Span::new(part.at + part.len, span.len - part.len))
    }
}

impl Filesystem for DiskFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let refused = |_| io::Error::other("the kernel's FUSE cannot keep several direct requests in flight");
        config.add_capabilities(InitFlags::FUSE_ASYNC_DIO).map_err(refused)?;
        let too_big = |_| io::Error::other("the kernel's FUSE refuses the transfer size");
        config.set_max_write(TRANSFER_BYTES).map_err(too_big)?;
        config.set_max_background(IN_FLIGHT).map_err(|_| io::Error::other("the kernel's FUSE refuses the depth"))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == "disk" {
            reply.entry(&FRESH, &self.attributes(FILE), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FRESH, &self.attributes(inode));
    }

    fn open(&self, _: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if self.disk.geometry().read_only && flags.acc_mode() != OpenAccMode::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let parallel = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | parallel);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        let span = self.clip(Span::new(at, u64::from(len)));
        BUFFER.with_borrow_mut(|buffer| {
            let len = span.len as usize;
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            match self.disk.read(span.at, &mut buffer[..len]) {
                Ok(()) => reply.data(&buffer[..len]),
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.disk.write(at, data, Access::Cached) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.disk.flush(), reply);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        answer(self.allocate(Span::new(at, len), mode), reply);
    }

    /// Reports the size of the disk and the block size. The loop device uses the block size as the granularity of
    /// discards; zero means that the disk supports no discards.
    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let geometry = self.disk.geometry();
        let grain = if geometry.trim { geometry.sector_bytes } else { 0 };
        reply.statfs(geometry.size / u64::from(geometry.sector_bytes), 0, 0, 1, 0, grain, 255, geometry.sector_bytes);
    }
}

fn answer(result: Result<()>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

/// Returns the error number for the reader or writer of the node. A system error keeps its number, except ENOSYS (AE2).
pub(super) fn errno(error: &Error) -> Errno {
    match error {
        Error::Io { source, .. } => match source.raw_os_error() {
            Some(number) if number > 0 && number != libc::ENOSYS => Errno::from_i32(number),
            _ => Errno::EIO,
        },
        Error::NoSpace(_) => Errno::ENOSPC,
        Error::ReadOnly => Errno::EROFS,
        Error::OutOfRange { .. } => Errno::EINVAL,
        Error::Unsupported(_) => Errno::EOPNOTSUPP,
        Error::Damaged(_) | Error::Poisoned(_) => Errno::EIO,
    }
}

#[cfg(test)]
mod tests;
