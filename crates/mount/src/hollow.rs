//! A mount without content, for benchmarks: the cost of a `--cached` mount without its server.
//!
//! The mount negotiates the same options with the kernel as a Ferrite mount and answers the same requests. It stores
//! names and sizes only, and all bytes read as zeros.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use fuser::{
    BackgroundSession, BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::cache_policy::KNOWN;
use super::convert::NOTHING;
use super::folder::{MountFolder, unmount};
use super::{MountOptions, as_root, kernel};

/// A mounted file system without content. Dropping it unmounts it lazily.
#[derive(Debug)]
pub struct Hollow {
    point: PathBuf,
    session: Option<BackgroundSession>,
}

impl Hollow {
    /// Mounts on `point` with the options that [`Mounted`](super::Mounted) uses for a cached file system. Root only.
    ///
    /// # Errors
    /// If the kernel refuses; nothing is mounted then.
    pub fn start(point: &Path, threads: usize) -> io::Result<Self> {
        let (source, allow_other) = ("hollow".into(), true);
        let options = MountOptions { source, cached: true, allow_other, threads, ..MountOptions::default() };
        let folder = MountFolder::open(&std::path::absolute(point)?)?;
        let session = as_root(Names::default(), &folder, &options)?.spawn()?;
        ferrite_fuse::widen_backlog(folder.mounted()?.ok_or(io::ErrorKind::NotFound)?.device)?;
        Ok(Self { point: folder.path()?, session: Some(session) })
    }

    /// Unmounts.
    ///
    /// # Errors
    /// If a program uses the mount; then it stays mounted.
    pub fn unmount(mut self) -> io::Result<()> {
        unmount(&self.point, false, |_| true)?;
        self.session.take().map_or(Ok(()), BackgroundSession::join)
    }
}

impl Drop for Hollow {
    fn drop(&mut self) {
        if let Some(session) = self.session.take() {
            let _ = unmount(&self.point, true, |_| true);
            // The threads end with the last user of the mount; this does not wait for them.
            std::mem::forget(session);
        }
    }
}

/// The inode number of each name, and the size of each inode.
#[derive(Default)]
struct Names(Mutex<NameTable>);

#[derive(Default)]
struct NameTable {
    numbers: HashMap<OsString, u64>,
    sizes: HashMap<u64, u64>,
}

impl Names {
    fn known(&self) -> MutexGuard<'_, NameTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NameTable {
    fn attributes(&self, ino: u64) -> FileAttr {
        let (kind, perm) =
            if ino == INodeNo::ROOT.0 { (FileType::Directory, 0o777) } else { (FileType::RegularFile, 0o666) };
        let size = self.sizes.get(&ino).copied().unwrap_or(0);
        FileAttr { ino: INodeNo(ino), size, kind, perm, nlink: 1, ..NOTHING }
    }

    /// Returns the inode number of `name`; assigns one to a new name.
    fn number(&mut self, name: &OsStr) -> u64 {
        let next = INodeNo::ROOT.0 + 1 + self.numbers.len() as u64;
        *self.numbers.entry(name.into()).or_insert(next)
    }
}

impl Filesystem for Names {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        kernel::agree(config, true)
    }

    fn lookup(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let known = self.known();
        let there = known.numbers.get(name).filter(|number| known.sizes.contains_key(number));
        let attributes = there.map_or(NOTHING, |number| known.attributes(*number));
        reply.entry(&KNOWN, &attributes, Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&KNOWN, &self.known().attributes(ino.0));
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
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
        let mut known = self.known();
        known.sizes.extend(size.map(|size| (ino.0, size)));
        reply.attr(&KNOWN, &known.attributes(ino.0));
    }

    fn create(&self, _: &Request, _: INodeNo, name: &OsStr, _: u32, _: u32, _: i32, reply: ReplyCreate) {
        let mut known = self.known();
        let number = known.number(name);
        known.sizes.insert(number, 0);
        let how = FopenFlags::FOPEN_KEEP_CACHE;
        reply.created(&KNOWN, &known.attributes(number), Generation(0), FileHandle(0), how);
    }

    fn unlink(&self, _: &Request, _: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let mut known = self.known();
        match known.numbers.get(name).copied().and_then(|number| known.sizes.remove(&number)) {
            Some(_) => reply.ok(),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        at: u64,
        len: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let size = self.known().sizes.get(&ino.0).copied().unwrap_or(0);
        reply.data(&vec![0; size.saturating_sub(at).min(len.into()) as usize]);
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let end = at + data.len() as u64;
        let mut known = self.known();
        if let Some(size) = known.sizes.get_mut(&ino.0) {
            *size = end.max(*size);
        }
        reply.written(data.len() as u32);
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }
}
