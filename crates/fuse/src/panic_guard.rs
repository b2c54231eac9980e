//! A FUSE file system whose threads survive a panic.
//!
//! A panic ends its thread, and after the last thread every request would wait forever. So a request that panics is
//! answered with EIO, like every dropped reply, and its thread continues. The panic prints its location on stderr.
//! During unwinding, guards release locks, pins and windows, and an open transaction is dropped uncommitted.

use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ferrite_memory::planted;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use crate::{FuseCounters, FuseOperation};

/// Runs `work` and returns its result, or `None` if it panicked.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    if planted!("fuse: a panic ends the thread") {
        return Some(work());
    }
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// A file system whose requests may panic, and are counted if it has counters.
pub struct PanicGuard<F> {
    fs: F,
    counters: Option<Arc<FuseCounters>>,
}

impl<F> PanicGuard<F> {
    /// Guards `fs`.
    pub fn new(fs: F) -> Self {
        Self { fs, counters: None }
    }

    /// Guards `fs` and counts its requests.
    pub fn counted(fs: F, counters: Arc<FuseCounters>) -> Self {
        Self { fs, counters: Some(counters) }
    }
}

/// Forwards each request, catches its panic and counts it.
macro_rules! panic_guard {
    ($($operation:ident: $request:ident($($name:ident: $kind:ty),*);)*) => {
        $(fn $request(&self, by: &Request, $($name: $kind),*) {
            let answer = || catch_panic(|| self.fs.$request(by, $($name),*));
            match &self.counters {
                Some(counters) => counters.count(FuseOperation::$operation, answer),
                None => drop(answer()),
            }
        })*
    };
}

impl<F: Filesystem> Filesystem for PanicGuard<F> {
    fn init(&mut self, by: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.fs.init(by, config)
    }

    fn destroy(&mut self) {
        self.fs.destroy();
    }

    panic_guard! {
        Lookup: lookup(dir: INodeNo, name: &OsStr, reply: ReplyEntry);
        Lookup: forget(ino: INodeNo, count: u64);
        Attributes: getattr(ino: INodeNo, file: Option<FileHandle>, reply: ReplyAttr);
        Attributes: setattr(
            ino: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>,
            atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>, ctime: Option<SystemTime>, file: Option<FileHandle>,
            crtime: Option<SystemTime>, chgtime: Option<SystemTime>, bkuptime: Option<SystemTime>,
            flags: Option<BsdFileFlags>, reply: ReplyAttr
        );
        Read: readlink(ino: INodeNo, reply: ReplyData);
        Names: mknod(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry);
        Names: mkdir(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry);
        Names: unlink(dir: INodeNo, name: &OsStr, reply: ReplyEmpty);
        Names: rmdir(dir: INodeNo, name: &OsStr, reply: ReplyEmpty);
        Names: symlink(dir: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry);
        Names: rename(dir: INodeNo, name: &OsStr, to: INodeNo, new: &OsStr, flags: RenameFlags, reply: ReplyEmpty);
        Names: link(ino: INodeNo, dir: INodeNo, name: &OsStr, reply: ReplyEntry);
        Open: open(ino: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        Read: read(
            ino: INodeNo, file: FileHandle, at: u64, len: u32, flags: OpenFlags, owner: Option<LockOwner>,
            reply: ReplyData
        );
        Write: write(
            ino: INodeNo, file: FileHandle, at: u64, data: &[u8], how: WriteFlags, flags: OpenFlags,
            owner: Option<LockOwner>, reply: ReplyWrite
        );
        Sync: flush(ino: INodeNo, file: FileHandle, owner: LockOwner, reply: ReplyEmpty);
        Open: release(
            ino: INodeNo, file: FileHandle, flags: OpenFlags, owner: Option<LockOwner>, flush: bool, reply: ReplyEmpty
        );
        Sync: fsync(ino: INodeNo, file: FileHandle, is_data: bool, reply: ReplyEmpty);
        Open: opendir(ino: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        List: readdir(ino: INodeNo, file: FileHandle, cookie: u64, reply: ReplyDirectory);
        List: readdirplus(ino: INodeNo, file: FileHandle, cookie: u64, reply: ReplyDirectoryPlus);
        Open: releasedir(ino: INodeNo, file: FileHandle, flags: OpenFlags, reply: ReplyEmpty);
        Sync: fsyncdir(ino: INodeNo, file: FileHandle, is_data: bool, reply: ReplyEmpty);
        Attributes: statfs(ino: INodeNo, reply: ReplyStatfs);
        Attributes: setxattr(ino: INodeNo, name: &OsStr, value: &[u8], how: i32, position: u32, reply: ReplyEmpty);
        Attributes: getxattr(ino: INodeNo, name: &OsStr, len: u32, reply: ReplyXattr);
        Attributes: listxattr(ino: INodeNo, len: u32, reply: ReplyXattr);
        Attributes: removexattr(ino: INodeNo, name: &OsStr, reply: ReplyEmpty);
        Attributes: access(ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty);
        Names: create(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate);
        Other: getlk(
            ino: INodeNo, file: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, pid: u32,
            reply: ReplyLock
        );
        Other: setlk(
            ino: INodeNo, file: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, pid: u32,
            waits: bool, reply: ReplyEmpty
        );
        Other: bmap(ino: INodeNo, block_bytes: u32, block: u64, reply: ReplyBmap);
        Other: ioctl(
            ino: INodeNo, file: FileHandle, flags: IoctlFlags, command: u32, data: &[u8], len: u32, reply: ReplyIoctl
        );
        Other: poll(
            ino: INodeNo, file: FileHandle, notifier: PollNotifier, events: PollEvents, flags: PollFlags,
            reply: ReplyPoll
        );
        Write: fallocate(ino: INodeNo, file: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty);
        Other: lseek(ino: INodeNo, file: FileHandle, at: i64, whence: i32, reply: ReplyLseek);
        Write: copy_file_range(
            ino: INodeNo, file: FileHandle, at: u64, to: INodeNo, to_file: FileHandle, to_at: u64, len: u64,
            flags: CopyFileRangeFlags, reply: ReplyWrite
        );
    }
}
