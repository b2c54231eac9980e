//! What is known of a file beside its content, and what callers ask to be changed.

use serde::{Deserialize, Serialize};

/// The number of an inode. It names the same file as long as the file exists or is held; with
/// [`Attr::generation`] it never names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory, as FUSE has it.
    pub const ROOT: Self = Self(1);
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A socket's name.
    Socket,
    /// A character device's name.
    CharDevice,
    /// A block device's name.
    BlockDevice,
}

/// Bits of the mode that tell the kind.
pub(crate) const KIND_MASK: u16 = 0o170000;

impl Kind {
    /// The kind with these bits of `st_mode` (0o170000).
    pub fn from_mode(mode: u32) -> Option<Self> {
        Some(match mode as u16 & KIND_MASK {
            0o100000 => Self::File,
            0o040000 => Self::Directory,
            0o120000 => Self::Symlink,
            0o010000 => Self::Fifo,
            0o140000 => Self::Socket,
            0o020000 => Self::CharDevice,
            0o060000 => Self::BlockDevice,
            _ => return None,
        })
    }

    /// Its bits of `st_mode`.
    pub fn mode_bits(self) -> u32 {
        match self {
            Self::File => 0o100000,
            Self::Directory => 0o040000,
            Self::Symlink => 0o120000,
            Self::Fifo => 0o010000,
            Self::Socket => 0o140000,
            Self::CharDevice => 0o020000,
            Self::BlockDevice => 0o060000,
        }
    }
}

/// A moment in nanoseconds since the start of 1970; what does not fit is the nearest that does (1677 to 2262).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(pub i64);

/// What `stat` tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which file.
    pub ino: Ino,
    /// Differs between the files that have had this number.
    pub generation: u32,
    /// What it is.
    pub kind: Kind,
    /// Permissions and the set-id and sticky bits: the low 12 bits of `st_mode`.
    pub mode: u16,
    /// Names it has; for a directory 2 and one for each directory in it.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Which device, of a device's name.
    pub rdev: u64,
    /// Bytes; of a directory, its entries times 32.
    pub size: u64,
    /// Bytes that it takes in the pool, its index included.
    pub allocated_bytes: u64,
    /// It was cut, and some of that space still goes back.
    pub is_shrinking: bool,
    /// Read last (as `relatime` has it).
    pub atime: Time,
    /// Content changed last.
    pub mtime: Time,
    /// Changed in any way last.
    pub ctime: Time,
    /// Made.
    pub btime: Time,
}

/// Who makes a file. Permissions are not checked here: the front end's kernel does that, or nobody needs to.
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
    /// What it is. A symbolic link is made by [`crate::FileSystem::symlink`].
    pub kind: Kind,
    /// Permissions and set-id bits, before `umask`.
    pub mode: u16,
    /// Bits of `mode` to leave out, unless the directory has a default ACL, which then takes its place.
    pub umask: u16,
    /// Which device, of a device's name; else 0.
    pub rdev: u64,
    /// Who makes it.
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

/// How a rename treats a name that exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rename {
    /// Replaces it, if it is of a kind that can be replaced.
    #[default]
    Replace,
    /// Refuses (RENAME_NOREPLACE).
    NoReplace,
    /// Exchanges the two (RENAME_EXCHANGE); both must exist.
    Exchange,
    /// Replaces it, and leaves a character device 0:0 of this owner under the old name (RENAME_WHITEOUT): what hides a file
    /// of a lower layer where several lie over one another.
    Whiteout(Credentials),
    /// The same where there is none to replace; else it refuses (RENAME_NOREPLACE too).
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

/// What a seek looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that has space (SEEK_DATA).
    Data,
    /// The next byte that has none, or the end (SEEK_HOLE).
    Hole,
}

/// How an extended attribute is set.
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
    /// Its name: any bytes but `/` and zero.
    pub name: &'a [u8],
    /// What it names.
    pub ino: Ino,
    /// What that is.
    pub kind: Kind,
    /// Where the listing goes on behind this entry; at least 1, below 2^63. It stays true whatever else is made or
    /// removed.
    pub cookie: u64,
}

/// An entry of a directory with what is known of what it names.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Its name.
    pub name: Vec<u8>,
    /// As [`DirEntry::cookie`].
    pub cookie: u64,
    /// What it names.
    pub ino: Ino,
    /// What that is.
    pub kind: Kind,
    /// What is known of it; nothing where it is damaged.
    pub attr: Option<Attr>,
}

/// How full a file system is.
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
