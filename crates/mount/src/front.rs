//! The file system as FUSE asks for it.
//!
//! - FM1. Each entry that is told to the kernel is held once; the kernel says by forgetting how many it gives back.
//! - FM2. A write is answered when it is as durable as the file system's data mode says; nothing is kept back here.
//! - FM3. Set-id bits and capabilities are taken away here on a change of owner, and on a change of content by who has
//!   no right to keep them: the kernel leaves it to us, or it would ask before every write; it is told that what it knows
//!   of the file is no longer so. Not by what is stored to a mapping, as on its own file systems.
//! - FM4. What is answered with ENOSYS is never asked again: opening and closing, and making a folder durable, for nothing
//!   is to be done then. Not so a file, though in memory nothing is to be done for it either: what the kernel keeps of it
//!   (by `--cached`, or in a mapping) it drops without a word when the server is killed, and only this request fails then.
//!   Except where a write is all or nothing (FM6).
//! - FM5. While clients beside the owner may store to a file, the kernel is told to believe nothing of its attributes, and
//!   who reads or changes its content here ends their right first (fs FG6). What is appended goes behind what they wrote,
//!   and where the kernel thought that to be elsewhere it forgets its copy.
//! - FM6. Where a write is all or nothing, files are opened past the kernel's cache, which would split one that begins
//!   within a page: each is one request, up to the longest that the kernel sends.
//! - FM7. Where the kernel keeps writes back it keeps the times of files too, and sends those that it was not told itself.
//!   So what it writes, whenever that comes, changes none.
//! - FM8. What the kernel wrote back is there, or it is told that not all of it is: then it says so at fsync.
//! - FM9. A request that panics is answered with EIO, and costs no thread that answers.
//! - FM10. A name that is not there is told as one that is: the kernel asks once, and forgets it when it makes the name.
//! - FM11. A file that the kernel has forgotten is found by its number as long as it has a name; with the generation that is
//!   told of it the kernel sees whether it is the one that was meant.
//! - FM12. Nor does the kernel believe what it is told of a file of which pages still go (fs FO1), and it forgets what it was
//!   told where others have come or gone since, that nobody asked for (fs FX3).
//! - FM13. A name that leads to a damaged inode is listed (fs FN4), by a number that no inode has, and the kernel believes
//!   nothing of it: who asks about it meets the error, and who copies its directory has all else.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use ferrite_fs::{Allocate, Attr, Credentials, DataMode, Error, FileSystem, Ino, Kind, NewFile, Result, Seek, SetAttr};
use fuser::{
    BsdFileFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, KernelConfig, LockOwner, OpenFlags,
    RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::MountOptions;
use super::attributes::send;
use super::errno::errno;
use super::kernel;
use super::lost::Lost;
use super::reserve::{NAME_BYTES, Reserve};
use super::told::{KNOWN, decline};
use super::words::{NOTHING, attributes, file_type, rename, set_time, time};

/// Bytes of a block in `statfs`.
const BLOCK: u64 = 4096;

/// A file system behind a mount.
pub(super) struct Front {
    pub(super) fs: Arc<FileSystem>,
    /// Whether the kernel keeps writes back.
    pub(super) cached: bool,
    /// Whether a write is all or nothing.
    pub(super) is_atomic: bool,
    pub(super) reserve: Reserve,
    pub(super) lost: Lost,
}

impl Front {
    pub fn new(fs: Arc<FileSystem>, options: &MountOptions) -> Self {
        let (cached, reserve) = (options.cached, Reserve::new(options.reserve_percent));
        let is_atomic = !cached && fs.data_mode() == DataMode::Atomic;
        #[cfg(test)]
        let is_atomic = is_atomic && !super::tests::is_planted(super::tests::Bug::Split);
        Self { fs, cached, is_atomic, reserve, lost: Lost::default() }
    }

    fn make(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        (mode, umask, rdev): (u32, u32, u32),
    ) -> Result<Attr> {
        let kind = Kind::from_mode(mode).unwrap_or(Kind::File);
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

impl Filesystem for Front {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        kernel::agree(config, self.cached)
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.found(Ino(parent.0), name.as_bytes());
        #[cfg(test)]
        if super::tests::note_lookup(name) {
            return self.tell(found, reply);
        }
        match found {
            Err(Error::NotFound) => reply.entry(&KNOWN, &NOTHING, Generation(0)),
            found => self.tell(found, reply),
        }
    }

    fn forget(&self, _: &Request, ino: INodeNo, count: u64) {
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
            // Behind it (fs FG9); somebody may have stored to it meanwhile.
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
        self.tell(self.make(by, parent, name, (mode, umask, rdev)), reply);
    }

    fn mkdir(&self, by: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        let mode = (mode & 0o7777) | Kind::Directory.mode_bits();
        self.tell(self.make(by, parent, name, (mode, umask, 0)), reply);
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
        let Some(how) = rename(flags, who(request)) else { return reply.error(Errno::EINVAL) };
        let from = (Ino(parent.0), name.as_bytes());
        answer(self.fs.rename(from, (Ino(new_parent.0), new_name.as_bytes()), how), reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.tell(self.fs.link(Ino(ino.0), Ino(parent.0), name.as_bytes()), reply);
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        #[cfg(test)]
        if super::tests::note_open() {
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
                Ok(len) => reply.data(&buffer[..len]),
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
        match self.write_at(by, (Ino(ino.0), at), data, (how, flags)) {
            Ok(len) => reply.written(len as u32),
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
            Some(why) => reply.error(why),
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
            // What is sound comes first (fs FN4).
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
        answer(self.set_attribute(by, Ino(ino.0), name.as_bytes(), (value, how)), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, len: u32, reply: ReplyXattr) {
        send(self.fs.xattr(Ino(ino.0), name.as_bytes()), len, reply);
    }

    /// Names of `trusted` attributes are root's to see.
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
        let mode = (mode & 0o7777) | Kind::File.mode_bits();
        match self.held(self.make(by, parent, name, (mode, umask, 0))) {
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
            _ => return reply.error(Errno::EOPNOTSUPP),
        };
        let Some(end) = at.checked_add(len) else { return reply.error(Errno::EFBIG) };
        answer(self.allocate(by, Ino(ino.0), at..end, how), reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, at: i64, whence: i32, reply: ReplyLseek) {
        let what = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        if self.cached {
            // What the kernel keeps back is data too, and only the kernel knows of it.
            return reply.error(Errno::ENOSYS);
        }
        let Ok(at) = u64::try_from(at) else { return reply.error(Errno::ENXIO) };
        match self.fs.seek(Ino(ino.0), at, what) {
            Ok(at) => reply.offset(at as i64),
            Err(error) => reply.error(errno(&error)),
        }
    }
}
