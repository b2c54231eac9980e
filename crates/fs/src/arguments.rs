//! Arguments and results of calls: files to be created and changed, listings, and counts of space.

use serde::{Deserialize, Serialize};

use crate::format::attr::{Attr, FileKind, Ino, Time};

/// The owner of a new file. This crate does not check permissions: the front end's kernel does, if necessary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// Owner of what is made.
    pub uid: u32,
    /// Group of what is made, unless its directory has the set-group-id bit.
    pub gid: u32,
}

/// A file to be made.
#[derive(Clone, Copy, Debug)]
pub struct NewFile {
    /// The kind of the file. [`crate::FileSystem::symlink`] creates symbolic links.
    pub kind: FileKind,
    /// Permissions and set-id bits, before `umask`.
    pub mode: u16,
    /// Bits of `mode` to leave out, unless the directory has a default ACL, which then takes its place.
    pub umask: u16,
    /// Which device, of a device's name; else 0.
    pub rdev: u64,
    /// The owner of the file.
    pub by: Credentials,
}

/// A time to be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetTime {
    /// The clock's.
    Now,
    /// This one.
    To(Time),
}

/// What to change of a file; what is `None` stays.
#[derive(Clone, Copy, Debug, Default)]
pub struct SetAttr {
    /// The low 12 bits of `st_mode`.
    pub mode: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Bytes: cut, or grown by a hole.
    pub size: Option<u64>,
    /// Read last.
    pub atime: Option<SetTime>,
    /// Content changed last.
    pub mtime: Option<SetTime>,
    /// Changed in any way last; `None`: now.
    pub ctime: Option<Time>,
}

/// How a rename treats an existing name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// Replaces it, if it is of a kind that can be replaced.
    #[default]
    Replace,
    /// Refuses (RENAME_NOREPLACE).
    NoReplace,
    /// Exchanges the two (RENAME_EXCHANGE); both must exist.
    Exchange,
    /// Replaces it, and leaves a character device 0:0 of this owner under the old name (RENAME_WHITEOUT): what hides a
    /// file of a lower layer where several lie over one another.
    Whiteout(Credentials),
    /// Like `Whiteout`, but refuses to replace a name (RENAME_NOREPLACE too).
    WhiteoutNoReplace(Credentials),
}

/// What `fallocate` does with a range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocate {
    /// Gives every page of it space, so that a write there cannot fail; the file grows to its end.
    Grow,
    /// The same; the size stays (FALLOC_FL_KEEP_SIZE).
    KeepSize,
    /// Makes it a hole (FALLOC_FL_PUNCH_HOLE); the size stays.
    Punch,
    /// Makes it read as zeros, with space (FALLOC_FL_ZERO_RANGE); the file grows to its end.
    Zero,
    /// The same; the size stays.
    ZeroKeepSize,
}

/// The target of a seek.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that has space (SEEK_DATA).
    Data,
    /// The next byte without space, or the end (SEEK_HOLE).
    Hole,
}

/// How to set an extended attribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SetXattr {
    /// Made or replaced.
    #[default]
    Any,
    /// Made; it must not exist (XATTR_CREATE).
    Create,
    /// Replaced; it must exist (XATTR_REPLACE).
    Replace,
}

/// An entry of a directory.
#[derive(Clone, Copy, Debug)]
pub struct DirEntry<'a> {
    /// The name: any bytes except `/` and zero.
    pub name: &'a [u8],
    /// The inode.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// The place behind this entry, where a listing continues; at least 1, below 2^63. It stays valid whatever else is
    /// created or removed.
    pub cookie: u64,
}

/// An entry of a directory with what is known of what it names.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The cookie, like [`DirEntry::cookie`].
    pub cookie: u64,
    /// The inode.
    pub ino: Ino,
    /// What that is.
    pub kind: FileKind,
    /// The attributes; `None` if the inode is damaged.
    pub attr: Option<Attr>,
}

/// The space and the inodes of a file system.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statfs {
    /// Bytes it has and could have: its own and what is free in the pool.
    pub total_bytes: u64,
    /// Bytes free, the pool's included.
    pub free_bytes: u64,
    /// Bytes that will be free when clients of an owner before this one have ended.
    #[serde(default)]
    pub awaited_bytes: u64,
    /// Bytes of pool space that are its own now.
    pub own_bytes: u64,
    /// Bytes of it in superpages.
    pub super_bytes: u64,
    /// Inodes in use.
    pub inodes: u64,
    /// Inodes that could still be made.
    pub free_inodes: u64,
}
