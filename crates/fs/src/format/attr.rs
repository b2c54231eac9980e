//! The number of a file, and its attributes.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The number of an inode. It names the same file as long as the file exists or is held; with
/// [`Attr::generation`] it never names another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Ino(pub u64);

impl Ino {
    /// The root directory, as FUSE has it.
    pub const ROOT: Self = Self(1);
}

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
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

/// The bits of the mode that hold the kind.
pub(crate) const KIND_MASK: u16 = 0o170000;

impl FileKind {
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

    /// Returns its bits of `st_mode`.
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

/// Tells the time; passed in, so that every run repeats.
pub type FsClock = Arc<dyn Fn() -> Time + Send + Sync>;

/// The attributes of a file, as `stat` returns them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attr {
    /// Which file.
    pub ino: Ino,
    /// Differs between the files that have had this number.
    pub generation: u32,
    /// The kind of the file.
    pub kind: FileKind,
    /// Permissions and the set-id and sticky bits: the low 12 bits of `st_mode`.
    pub mode: u16,
    /// The number of names; for a directory 2 plus the directories in it.
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
    /// The file was cut, and some of that space is not free yet.
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
