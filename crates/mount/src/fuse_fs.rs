//! Answers the kernel's FUSE requests from a [`FileSystem`].
//!
//! - FM1. Each answer that names an inode to the kernel takes one reference to it. The kernel's `forget` says how many
//!   references it returns.
//! - FM2. A write is answered when it is as durable as the file system's data mode promises. This layer buffers nothing.
//! - FM3. This layer clears set-id bits and capabilities on a change of owner, and on a change of content by a user who may
//!   not keep them. The kernel delegates this to the server, which otherwise would be asked before every write. The
//!   kernel then drops its cached attributes. A store to a mapping clears nothing, as on the kernel's file systems.
//! - FM4. Open, release, and fsync of a directory need no work, so their answer is ENOSYS and the kernel never asks again.
//!   fsync of a file is always answered: if the server is killed, the kernel drops the pages it holds (by `--cached` or a
//!   mapping) silently, and only a failing fsync shows the loss. If writes are atomic, open is answered too (FM6).
//! - FM5. While clients may store to a file, the kernel caches none of its attributes, and every request that reads or
//!   changes the content revokes the write leases first (fs FG6). An append goes after the bytes that clients appended; if
//!   the kernel expected another offset, it drops its copy.
//! - FM6. If writes are atomic, files are opened for direct I/O: the kernel's cache would split a write that begins within a
//!   page. Each write is then one request, up to the kernel's largest.
//! - FM7. If the kernel holds writes back, it maintains the times of files too, and sends them. A write-back changes no
//!   time.
//! - FM8. All data of a write-back is in the file system, or the answer is an error that fsync reports.
//! - FM9. A request that panics is answered with EIO, and its thread goes on.
//! - FM10. The answer for an absent name allows the kernel to cache the absence until it creates the name.
//! - FM11. An inode that the kernel has forgotten is found by its number as long as a name leads to it. The generation in
//!   the answer shows whether the number was reused.
//! - FM12. The kernel caches no attributes of a file that still frees pages (fs FO1), and drops cached attributes when
//!   background work changes the allocated size (fs FX3).
//! - FM13. A listing reports a name that leads to a damaged inode (fs FN4) with a number that no inode has, and without
//!   caching. A look-up of the name returns the error, and a copy of the directory gets all other entries.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::SystemTime;

use ferrite_fs::{Allocate, Attr, Credentials, Error, FileKind, Ino, NewFile, Result, Seek, SetAttr};
use ferrite_fuse::note_moved;
use ferrite_memory::planted;
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::attributes::send;
use super::cache_policy::{KNOWN, decline};
use super::content::WriteRequest;
use super::convert::{NOTHING, attributes, file_type, rename, set_time, time};
use super::errno::{errno, failed};
use super::kernel;
use super::reserve::NAME_BYTES;
use super::server::FuseFs;

/// The block size that `statfs` reports, in bytes.
const BLOCK: u64 = 4096;

/// The mode, umask and device number of an inode to create, as mknod(2) has them.
struct NewNode {
    mode: u32,
    umask: u32,
    rdev: u32,
}

impl FuseFs {
    fn make(&self, request: &Request, parent: INodeNo, name: &OsStr, node: NewNode) -> Result<Attr> {
        let NewNode { mode, umask, rdev } = node;
        let kind = FileKind::from_mode(mode).unwrap_or(FileKind::File);
        let by = who(request);
        self.ensure_room(by.uid, NAME_BYTES)?;
        let new = NewFile { kind, mode: (mode & 0o7777) as u16, umask: umask as u16, rdev: rdev.into(), by };
        self.fs.create_file(Ino(parent.0), name.as_bytes(), &new)
    }
}

fn who(request: &Request) -> Credentials {
    Credentials { uid: request.uid(), gid: request.gid() }
}

fn answer(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(errno(&error)),
    }
}

impl Filesystem for FuseFs {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        kernel::agree(config, self.cached)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.found(Ino(parent.0), name.as_bytes());
        #[cfg(test)]
        super::tests::note_lookup(name);
        if planted!("mount: not remembered") {
            return self.tell(found, reply);
        }
        match found {
            Err(Error::NotFound) => reply.entry(&KNOWN, &NOTHING, Generation(0)),
            found => self.tell(found, reply),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
        let _ = planted!("mount: forget");
        self.lost.take(Ino(ino.0));
        self.fs.release(Ino(ino.0), count);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.tell_attr(self.fs.getattr(Ino(ino.0)), reply);
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let mode = mode.map(|mode| (mode & 0o7777) as u16);
        let (atime, mtime, ctime) = (atime.map(set_time), mtime.map(set_time), ctime.map(time));
        let set = SetAttr { mode, uid, gid, size, atime, mtime, ctime };
        let (ino, set) = (Ino(ino.0), self.with_losses(request, Ino(ino.0), set));
        if size.is_some() {
            self.end_writing(ino);
        }
        let mut done = set.and_then(|set| self.fs.setattr(ino, &set));
        if mode.is_some_and(|mode| mode & 0o6000 != 0) {
            // After the change (fs FG9). A client may have stored to the file since.
            self.end_writing(ino);
            done = done.and_then(|_| self.fs.getattr(ino));
        }
        self.tell_attr(done, reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.fs.readlink(Ino(ino.0)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn mknod(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        self.tell(self.make(by, parent, name, NewNode { mode, umask, rdev }), reply);
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let mode = (mode & 0o7777) | FileKind::Directory.mode_bits();
        self.tell(self.make(by, parent, name, NewNode { mode, umask, rdev: 0 }), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.fs.unlink(Ino(parent.0), name.as_bytes()), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.fs.rmdir(Ino(parent.0), name.as_bytes()), reply);
    }

    fn symlink(&self, by: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (target, at) = (target.as_os_str().as_bytes(), Ino(parent.0));
        let room = self.ensure_room(by.uid(), NAME_BYTES);
        self.tell(room.and_then(|()| self.fs.symlink(at, name.as_bytes(), target, who(by))), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let Some(how) = rename(flags, who(request)) else { return reply.error(failed(Errno::EINVAL)) };
        let from = (Ino(parent.0), name.as_bytes());
        answer(self.fs.rename(from, (Ino(new_parent.0), new_name.as_bytes()), how), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.tell(self.fs.link(Ino(ino.0), Ino(parent.0), name.as_bytes()), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if planted!("mount: open answered") {
            return reply.opened(FileHandle(0), FopenFlags::empty());
        }
        if self.is_atomic {
            return reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO);
        }
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        thread_local!(static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) });
        BUFFER.with_borrow_mut(|buffer| {
            let len = len as usize;
            if buffer.len() < len {
                buffer.resize(len, 0);
            }
            match self.read_by(Ino(ino.0), at, &mut buffer[..len], flags) {
                Ok(len) => {
                    note_moved(len);
                    reply.data(&buffer[..len]);
                }
                Err(error) => reply.error(errno(&error)),
            }
        });
    }

    fn write(
        &self,
        by: &Request,
        ino: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        how: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.write_at(by, WriteRequest { ino: Ino(ino.0), at, data, how, opened: flags }) {
            Ok(len) => {
                note_moved(len);
                reply.written(len as u32);
            }
            Err(error) => {
                let why = errno(&error);
                if how.contains(WriteFlags::FUSE_WRITE_CACHE) {
                    self.lose(Ino(ino.0), why);
                }
                reply.error(why);
            }
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.lost.take(Ino(ino.0)) {
            Some(why) => reply.error(failed(why)),
            None => answer(self.fs.fsync(Ino(ino.0)), reply),
        }
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn readdir(&self, _: &Request, ino: INodeNo, _: FileHandle, cookie: u64, mut reply: ReplyDirectory) {
        let mut is_any = false;
        let listed = self.fs.readdir(Ino(ino.0), cookie, &mut |entry| {
            is_any = true;
            let name = OsStr::from_bytes(entry.name);
            !reply.add(INodeNo(entry.ino.0), entry.cookie, file_type(entry.kind), name)
        });
        match listed {
            // Report the sound entries first (fs FN4).
            Err(error) if !is_any => reply.error(errno(&error)),
            _ => reply.ok(),
        }
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, _: FileHandle, cookie: u64, mut reply: ReplyDirectoryPlus) {
        match self.list(Ino(ino.0), cookie, &mut reply) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(&error)),
        }
    }

    /// Every change of a directory is durable when it is answered.
    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        decline(reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let all = self.fs.statfs();
        let (total, free) = (all.total_bytes / BLOCK, all.free_bytes / BLOCK);
        let inodes = all.inodes + all.free_inodes;
        let name_bytes = ferrite_fs::NAME_BYTES_MAX as u32;
        let available = free.saturating_sub(self.reserve.bytes(&all) / BLOCK);
        reply.statfs(total, free, available, inodes, all.free_inodes, BLOCK as u32, name_bytes, BLOCK as u32);
    }

    fn setxattr(&self, by: &Request, ino: INodeNo, name: &OsStr, value: &[u8], how: i32, _: u32, reply: ReplyEmpty) {
        answer(self.set_attribute(by, Ino(ino.0), name.as_bytes(), value, how), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, len: u32, reply: ReplyXattr) {
        send(self.fs.xattr(Ino(ino.0), name.as_bytes()), len, reply);
    }

    /// Only root sees the names of `trusted` attributes.
    fn listxattr(&self, request: &Request, ino: INodeNo, len: u32, reply: ReplyXattr) {
        let sees = |name: &[u8]| request.uid() == 0 || !name.starts_with(b"trusted.");
        let names = self.fs.xattrs(Ino(ino.0));
        let joined = names
            .map(|names| names.iter().filter(|name| sees(name)).flat_map(|name| [name, &b"\0"[..]].concat()).collect());
        send(joined, len, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.remove_attribute(Ino(ino.0), name.as_bytes()), reply);
    }

    fn create(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, _: i32, reply: ReplyCreate) {
        let mode = (mode & 0o7777) | FileKind::File.mode_bits();
        match self.held(self.make(by, parent, name, NewNode { mode, umask, rdev: 0 })) {
            Ok(attr) => {
                let generation = Generation(attr.generation.into());
                let how = if self.is_atomic { FopenFlags::FOPEN_DIRECT_IO } else { FopenFlags::FOPEN_KEEP_CACHE };
                reply.created(&KNOWN, &attributes(&attr), generation, FileHandle(0), how);
            }
            Err(error) => reply.error(errno(&error)),
        }
    }

    fn fallocate(&self, by: &Request, ino: INodeNo, _: FileHandle, at: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let how = match (mode & !libc::FALLOC_FL_KEEP_SIZE, keeps_size) {
            (0, false) => Allocate::Grow,
            (0, true) => Allocate::KeepSize,
            (libc::FALLOC_FL_PUNCH_HOLE, true) => Allocate::Punch,
            (libc::FALLOC_FL_ZERO_RANGE, false) => Allocate::Zero,
            (libc::FALLOC_FL_ZERO_RANGE, true) => Allocate::ZeroKeepSize,
            _ => return reply.error(failed(Errno::EOPNOTSUPP)),
        };
        let Some(end) = at.checked_add(len) else { return reply.error(failed(Errno::EFBIG)) };
        answer(self.allocate(by, Ino(ino.0), at..end, how), reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, at: i64, whence: i32, reply: ReplyLseek) {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(failed(Errno::EINVAL)),
        };
        if self.cached {
            // The kernel's cache may hold data that this server does not have yet.
            return reply.error(Errno::ENOSYS);
        }
        let Ok(at) = u64::try_from(at) else { return reply.error(failed(Errno::ENXIO)) };
        match self.fs.seek(Ino(ino.0), at, what) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
