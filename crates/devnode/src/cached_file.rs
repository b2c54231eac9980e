//! A disk as a file that programs map: its bytes are in the kernel's page cache until they are flushed.
//!
//! - AF1. fsync and msync(MS_SYNC) return 0 only if the disk has all that was stored before, and [`Disk::flush`], begun
//!   after those writes, has returned.
//! - AF2. While the last write of a byte has failed, every fsync fails with its error. The kernel writes a page once,
//!   so a second fsync would else succeed without the bytes.
//! - AF3. No program changes the size. Other attributes change, and the kernel's writes of them are answered: else
//!   an fsync of a file with new times would fail.
//! - AF4. One program at a time has the file open for writing: two machines on one disk would destroy it. Readers are
//!   not counted.
//! - AF5. While a disk is a file, nothing else writes to it: the kernel would not see those writes. The caller
//!   guarantees this.

use std::ffi::OsStr;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ferrite_disk::{Access, Disk};
use ferrite_memory::{Span, planted};
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenAccMode, OpenFlags, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::FileOwner;
use super::export::{DiskFile, IN_FLIGHT, TRANSFER_BYTES, errno};
use super::lost_ranges::LostRanges;

/// Validity of cached attributes: only the kernel changes them.
const KNOWN: Duration = Duration::from_secs(24 * 3600);

/// Time that the opening of a second writer waits for the end of the first: the kernel reports the end of a killed
/// program late.
const LEAVING: Duration = Duration::from_secs(1);

/// The state of a file that its server and [`super::AttachedFile`] share.
#[derive(Debug)]
pub(super) struct FileState {
    modes: Mutex<FileModes>,
    lost: Mutex<LostRanges>,
    writer: Mutex<FileWriter>,
    /// Signalled when the writer has closed the file.
    has_left: Condvar,
}

/// The permissions of the file.
#[derive(Clone, Copy, Debug)]
struct FileModes {
    owner: FileOwner,
    bits: u16,
}

/// The program that has the file open for writing.
#[derive(Debug, Default)]
struct FileWriter {
    /// The handle of the opening, and the process that opened the file.
    open: Option<(u64, u32)>,
    openings: u64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileState {
    /// Returns the state of a file that only `owner` and root may open.
    pub fn new(owner: FileOwner) -> Arc<Self> {
        Arc::new(Self {
            modes: Mutex::new(FileModes { owner, bits: 0o600 }),
            lost: Mutex::default(),
            writer: Mutex::default(),
            has_left: Condvar::new(),
        })
    }

    /// Returns the number of lost bytes and the error of the latest write that failed, if bytes are lost (AF2).
    pub fn lost(&self) -> Option<(u64, io::Error)> {
        let lost = lock(&self.lost);
        Some((lost.bytes(), io::Error::from_raw_os_error(lost.why()?.into())))
    }

    /// Returns the process that opened the file for writing, if one has it open.
    pub fn writer(&self) -> Option<u32> {
        lock(&self.writer).open.map(|(_, pid)| pid)
    }

    /// Makes the process `pid` the writer and returns its handle, or `None` if another one stays (AF4).
    fn begin_writing(&self, pid: u32) -> Option<FileHandle> {
        let is_taken = |writer: &mut FileWriter| writer.open.is_some();
        let waited = self.has_left.wait_timeout_while(lock(&self.writer), LEAVING, is_taken);
        let (mut writer, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if writer.open.is_some() && !planted!("devnode: two programs write to a file") {
            return None;
        }
        writer.openings += 1;
        writer.open = Some((writer.openings, pid));
        Some(FileHandle(writer.openings))
    }

    fn end_writing(&self, handle: FileHandle) {
        let mut writer = lock(&self.writer);
        if writer.open.is_some_and(|(open, _)| open == handle.0) {
            writer.open = None;
            self.has_left.notify_all();
        }
    }
}

/// The file system whose root is the file.
pub(super) struct CachedFile {
    disk: Arc<dyn Disk>,
    file: DiskFile,
    state: Arc<FileState>,
}

impl CachedFile {
    /// Creates the file that shows `disk`.
    pub fn new(disk: Arc<dyn Disk>, state: Arc<FileState>) -> Self {
        Self { file: DiskFile::new(Arc::clone(&disk)), disk, state }
    }

    fn attributes(&self) -> FileAttr {
        let (geometry, modes) = (self.disk.geometry(), *lock(&self.state.modes));
        FileAttr {
            ino: INodeNo::ROOT,
            size: geometry.size,
            blocks: geometry.size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: modes.bits,
            nlink: 1,
            uid: modes.owner.uid,
            gid: modes.owner.gid,
            rdev: 0,
            blksize: geometry.preferred_bytes,
            flags: 0,
        }
    }

    /// Writes a part of the page cache to the disk, and notes if that fails (AF2).
    fn store(&self, at: u64, data: &[u8]) -> Result<(), Errno> {
        let span = self.file.clip(Span::new(at, data.len() as u64));
        let inside = &data[..span.len as usize];
        let stored = self.disk.write(at, inside, Access::Cached).map_err(|error| errno(&error));
        let mut lost = lock(&self.state.lost);
        match stored {
            Err(why) if !planted!("devnode: a failed write of a file is forgotten") => lost.lose(span, why),
            _ => lost.store(span),
        }
        drop(lost);
        stored?;
        if inside.len() == data.len() { Ok(()) } else { Err(Errno::EFBIG) }
    }

    fn persist(&self) -> Result<(), Errno> {
        if !planted!("devnode: an fsync of a file flushes no disk") {
            self.disk.flush().map_err(|error| errno(&error))?;
        }
        lock(&self.state.lost).why().map_or(Ok(()), Err)
    }

    /// Changes the attributes, except for the size (AF3).
    fn change(&self, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>) -> Result<(), Errno> {
        if size.is_some_and(|size| size != self.disk.geometry().size) {
            return Err(Errno::EPERM);
        }
        let mut modes = lock(&self.state.modes);
        modes.bits = mode.map_or(modes.bits, |mode| (mode & 0o777) as u16);
        modes.owner = FileOwner { uid: uid.unwrap_or(modes.owner.uid), gid: gid.unwrap_or(modes.owner.gid) };
        Ok(())
    }
}

fn answer(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(why) => reply.error(why),
    }
}

impl Filesystem for CachedFile {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for flag in [InitFlags::FUSE_ASYNC_READ, InitFlags::FUSE_BIG_WRITES] {
            // A kernel without the capability uses an older protocol.
            let _ = config.add_capabilities(flag);
        }
        let refused = |_| io::Error::other("the kernel's FUSE holds no writes back");
        config.add_capabilities(InitFlags::FUSE_WRITEBACK_CACHE).map_err(refused)?;
        let too_big = |_| io::Error::other("the kernel's FUSE refuses the transfer size");
        config.set_max_write(TRANSFER_BYTES).map_err(too_big)?;
        config.set_max_background(IN_FLIGHT).map_err(|_| io::Error::other("the kernel's FUSE refuses the depth"))?;
        Ok(())
    }

    fn lookup(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::ENOTDIR);
    }

    fn getattr(&self, _: &Request, _: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KNOWN, &self.attributes());
    }

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        match self.change(mode, uid, gid, size) {
            Ok(()) => reply.attr(&KNOWN, &self.attributes()),
            Err(why) => reply.error(why),
        }
    }

    fn open(&self, by: &Request, _: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let keep = FopenFlags::FOPEN_KEEP_CACHE;
        if flags.acc_mode() == OpenAccMode::O_RDONLY {
            return reply.opened(FileHandle(0), keep);
        }
        if self.disk.geometry().read_only {
            return reply.error(Errno::EROFS);
        }
        match self.state.begin_writing(by.pid()) {
            Some(handle) => reply.opened(handle, keep),
            None => reply.error(Errno::EBUSY),
        }
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.state.end_writing(handle);
        reply.ok();
    }

    fn read(
        &self,
        by: &Request,
        inode: INodeNo,
        handle: FileHandle,
        at: u64,
        len: u32,
        flags: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.file.read(by, inode, handle, at, len, flags, owner, reply);
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
        match self.store(at, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(why) => reply.error(why),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(self.persist(), reply);
    }

    fn fallocate(&self, _: &Request, _: INodeNo, _: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        answer(self.file.allocate(Span::new(at, len), mode).map_err(|error| errno(&error)), reply);
    }

    fn statfs(&self, by: &Request, inode: INodeNo, reply: ReplyStatfs) {
        self.file.statfs(by, inode, reply);
    }
}

#[cfg(test)]
mod tests;
