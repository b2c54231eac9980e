//! A file system that is open.

use std::sync::Arc;

use ferrite_pool::Pool;

use crate::{
    Allocate, Attr, Credentials, DataMode, DirEntry, Error, FsOptions, FsSpec, Ino, NewFile, Rename, Result, Seek,
    SetAttr, SetXattr, Statfs,
};

/// Bytes of a name at most.
pub const NAME_BYTES_MAX: usize = 255;

/// A file system in a pool, open. Shared between threads as it is; every call returns when its change is durable, but
/// for written data under [`DataMode::Posix`] and times of last access.
pub struct FileSystem {
    pool: Arc<Pool>,
    data: DataMode,
}

const LATER: Error = Error::Unsupported("not built yet");

impl FileSystem {
    /// Makes a file system called `name` with an empty root directory. Durable on return, or not made.
    pub fn create(pool: &Pool, name: &str, spec: &FsSpec) -> Result<()> {
        let _ = (pool, name, spec);
        Err(LATER)
    }

    /// Removes the file system called `name` and all that is in it. Nobody has it open.
    pub fn remove(pool: &Pool, name: &str) -> Result<()> {
        let _ = (pool, name);
        Err(LATER)
    }

    /// Opens the file system called `name`. The caller sees to it that it is open once at a time. Takes no longer for
    /// many files than for few.
    pub fn open(pool: Arc<Pool>, name: &str, options: FsOptions) -> Result<Arc<Self>> {
        let _ = (pool, name, options);
        Err(LATER)
    }

    /// When written data is durable.
    pub fn data_mode(&self) -> DataMode {
        self.data
    }

    /// The pool it lies in.
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// What `parent` calls `name`; `.` and `..` too.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        let _ = (parent, name);
        Err(LATER)
    }

    /// What is known of a file.
    pub fn getattr(&self, ino: Ino) -> Result<Attr> {
        let _ = ino;
        Err(LATER)
    }

    /// Changes what `set` says, all in one; a size takes away or adds at the end.
    pub fn setattr(&self, ino: Ino, set: &SetAttr) -> Result<Attr> {
        let _ = (ino, set);
        Err(LATER)
    }

    /// Makes a file, a directory, a pipe, or a socket's or device's name.
    pub fn create_file(&self, parent: Ino, name: &[u8], new: &NewFile) -> Result<Attr> {
        let _ = (parent, name, new);
        Err(LATER)
    }

    /// Makes a regular file without a name (O_TMPFILE), held once; [`FileSystem::link`] may name it. `parent` tells
    /// its group and its ACL.
    pub fn create_unnamed(&self, parent: Ino, new: &NewFile) -> Result<Attr> {
        let _ = (parent, new);
        Err(LATER)
    }

    /// Makes a symbolic link to `target`, 1 to 4095 bytes.
    pub fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], by: Credentials) -> Result<Attr> {
        let _ = (parent, name, target, by);
        Err(LATER)
    }

    /// Where a symbolic link points.
    pub fn readlink(&self, ino: Ino) -> Result<Vec<u8>> {
        let _ = ino;
        Err(LATER)
    }

    /// Gives a file, not a directory, one more name.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let _ = (ino, parent, name);
        Err(LATER)
    }

    /// Removes a name of what is no directory. A file without a name lives on while it is held; a crash ends it.
    /// Space of a large one is freed by [`FileSystem::step`].
    pub fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let _ = (parent, name);
        Err(LATER)
    }

    /// Removes an empty directory.
    pub fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let _ = (parent, name);
        Err(LATER)
    }

    /// Moves a name, all or nothing.
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), how: Rename) -> Result<()> {
        let _ = (from, to, how);
        Err(LATER)
    }

    /// Lists a directory, `.` and `..` first, from behind the entry with `cookie` (0: from the start) until `each`
    /// says `false` (that entry comes again). Entries that stay are listed once, whatever happens meanwhile. `each`
    /// calls nothing of this file system.
    pub fn readdir(&self, dir: Ino, cookie: u64, each: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result<()> {
        let _ = (dir, cookie, each);
        Err(LATER)
    }

    /// Keeps the inode although its last name may be removed: an open file, or a number that a kernel remembers.
    /// Once for each [`FileSystem::release`].
    pub fn hold(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        Err(LATER)
    }

    /// Gives back `count` holds. With the last one a file without a name ends.
    pub fn release(&self, ino: Ino, count: u64) {
        let _ = (ino, count);
    }

    /// Reads from byte `at` on; how many bytes, fewer than asked for at the end only.
    pub fn read(&self, ino: Ino, at: u64, into: &mut [u8]) -> Result<usize> {
        let _ = (ino, at, into);
        Err(LATER)
    }

    /// Writes from byte `at` on, which may lie past the end; how many bytes, fewer than given only where space ran out.
    pub fn write(&self, ino: Ino, at: u64, from: &[u8]) -> Result<usize> {
        let _ = (ino, at, from);
        Err(LATER)
    }

    /// Writes behind the last byte, whoever else appends too; where it went, and how many bytes.
    pub fn append(&self, ino: Ino, from: &[u8]) -> Result<(u64, usize)> {
        let _ = (ino, from);
        Err(LATER)
    }

    /// Gives or takes space of a range of a regular file.
    pub fn allocate(&self, ino: Ino, range: std::ops::Range<u64>, how: Allocate) -> Result<()> {
        let _ = (ino, range, how);
        Err(LATER)
    }

    /// The first byte from `at` on of the kind looked for.
    pub fn seek(&self, ino: Ino, at: u64, what: Seek) -> Result<u64> {
        let _ = (ino, at, what);
        Err(LATER)
    }

    /// Everything written to the file before is durable on return.
    pub fn fsync(&self, ino: Ino) -> Result<()> {
        let _ = ino;
        Err(LATER)
    }

    /// The same for all files.
    pub fn flush(&self) -> Result<()> {
        Err(LATER)
    }

    /// An extended attribute's value. Names are whole (`user.x`, `trusted.x`, `security.x`,
    /// `system.posix_acl_access`); who may see which is the caller's to check.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        let _ = (ino, name);
        Err(LATER)
    }

    /// The names of all extended attributes.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        let _ = ino;
        Err(LATER)
    }

    /// Sets an extended attribute: up to 64 KiB. An ACL changes the mode with it.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        let _ = (ino, name, value, how);
        Err(LATER)
    }

    /// Removes an extended attribute.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        let _ = (ino, name);
        Err(LATER)
    }

    /// How full it is.
    pub fn statfs(&self) -> Statfs {
        Statfs { total_bytes: 0, free_bytes: 0, own_bytes: 0, super_bytes: 0, inodes: 0, free_inodes: 0 }
    }

    /// Does one bounded step of what waits: freeing what large removed files held, moving files to superpages, giving
    /// chunks back to the pool. `false` when nothing waits.
    pub fn step(&self) -> Result<bool> {
        Ok(false)
    }
}
