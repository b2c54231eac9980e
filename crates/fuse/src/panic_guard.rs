//! A FUSE file system whose threads survive a panic.
//!
//! A panic ends its thread, and after the last thread every request would wait forever. So a request that panics is
//! answered with EIO, like every dropped reply, and its thread continues. The panic prints its location on stderr.
//! During unwinding, guards release locks, pins and windows, and an open transaction is dropped uncommitted.

use std::ffi::OsStr;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::SystemTime;

use ferrite_memory::planted;
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLock, ReplyLseek,
    ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

/// Runs `work` and returns its result, or `None` if it panicked.
pub fn catch_panic<T>(work: impl FnOnce() -> T) -> Option<T> {
    if planted!("fuse: a panic ends the thread") {
        return Some(work());
    }
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// A file system whose requests may panic.
#[derive(Debug)]
pub struct PanicGuard<F>(pub F);

/// Forwards each request and catches its panic.
macro_rules! panic_guard {
    ($($request:ident($($name:ident: $kind:ty),*);)*) => {
        $(fn $request(&self, by: &Request, $($name: $kind),*) {
            catch_panic(|| self.0.$request(by, $($name),*));
        })*
    };
}

impl<F: Filesystem> Filesystem for PanicGuard<F> {
    fn init(&mut self, by: &Request, config: &mut KernelConfig) -> io::Result<()> {
        self.0.init(by, config)
    }

    fn destroy(&mut self) {
        self.0.destroy();
    }

    panic_guard! {
        lookup(dir: INodeNo, name: &OsStr, reply: ReplyEntry);
        forget(ino: INodeNo, count: u64);
        getattr(ino: INodeNo, file: Option<FileHandle>, reply: ReplyAttr);
        setattr(
            ino: INodeNo, mode: Option<u32>, uid: Option<u32>, gid: Option<u32>, size: Option<u64>,
            atime: Option<TimeOrNow>, mtime: Option<TimeOrNow>, ctime: Option<SystemTime>, file: Option<FileHandle>,
            crtime: Option<SystemTime>, chgtime: Option<SystemTime>, bkuptime: Option<SystemTime>,
            flags: Option<BsdFileFlags>, reply: ReplyAttr
        );
        readlink(ino: INodeNo, reply: ReplyData);
        mknod(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry);
        mkdir(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry);
        unlink(dir: INodeNo, name: &OsStr, reply: ReplyEmpty);
        rmdir(dir: INodeNo, name: &OsStr, reply: ReplyEmpty);
        symlink(dir: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry);
        rename(dir: INodeNo, name: &OsStr, to: INodeNo, new: &OsStr, flags: RenameFlags, reply: ReplyEmpty);
        link(ino: INodeNo, dir: INodeNo, name: &OsStr, reply: ReplyEntry);
        open(ino: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        read(
            ino: INodeNo, file: FileHandle, at: u64, len: u32, flags: OpenFlags, owner: Option<LockOwner>,
            reply: ReplyData
        );
        write(
            ino: INodeNo, file: FileHandle, at: u64, data: &[u8], how: WriteFlags, flags: OpenFlags,
            owner: Option<LockOwner>, reply: ReplyWrite
        );
        flush(ino: INodeNo, file: FileHandle, owner: LockOwner, reply: ReplyEmpty);
        release(
            ino: INodeNo, file: FileHandle, flags: OpenFlags, owner: Option<LockOwner>, flush: bool, reply: ReplyEmpty
        );
        fsync(ino: INodeNo, file: FileHandle, is_data: bool, reply: ReplyEmpty);
        opendir(ino: INodeNo, flags: OpenFlags, reply: ReplyOpen);
        readdir(ino: INodeNo, file: FileHandle, cookie: u64, reply: ReplyDirectory);
        readdirplus(ino: INodeNo, file: FileHandle, cookie: u64, reply: ReplyDirectoryPlus);
        releasedir(ino: INodeNo, file: FileHandle, flags: OpenFlags, reply: ReplyEmpty);
        fsyncdir(ino: INodeNo, file: FileHandle, is_data: bool, reply: ReplyEmpty);
        statfs(ino: INodeNo, reply: ReplyStatfs);
        setxattr(ino: INodeNo, name: &OsStr, value: &[u8], how: i32, position: u32, reply: ReplyEmpty);
        getxattr(ino: INodeNo, name: &OsStr, len: u32, reply: ReplyXattr);
        listxattr(ino: INodeNo, len: u32, reply: ReplyXattr);
        removexattr(ino: INodeNo, name: &OsStr, reply: ReplyEmpty);
        access(ino: INodeNo, mask: AccessFlags, reply: ReplyEmpty);
        create(dir: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate);
        getlk(
            ino: INodeNo, file: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, pid: u32,
            reply: ReplyLock
        );
        setlk(
            ino: INodeNo, file: FileHandle, owner: LockOwner, start: u64, end: u64, kind: i32, pid: u32,
            waits: bool, reply: ReplyEmpty
        );
        bmap(ino: INodeNo, block_bytes: u32, block: u64, reply: ReplyBmap);
        ioctl(
            ino: INodeNo, file: FileHandle, flags: IoctlFlags, command: u32, data: &[u8], len: u32, reply: ReplyIoctl
        );
        poll(
            ino: INodeNo, file: FileHandle, notifier: PollNotifier, events: PollEvents, flags: PollFlags,
            reply: ReplyPoll
        );
        fallocate(ino: INodeNo, file: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty);
        lseek(ino: INodeNo, file: FileHandle, at: i64, whence: i32, reply: ReplyLseek);
        copy_file_range(
            ino: INodeNo, file: FileHandle, at: u64, to: INodeNo, to_file: FileHandle, to_at: u64, len: u64,
            flags: CopyFileRangeFlags, reply: ReplyWrite
        );
    }
}
