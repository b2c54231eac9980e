//! Options for creating and opening a file system.

use serde::{Deserialize, Serialize};

use crate::format::attr::{FsClock, Time};

/// When written data is durable, and whether a crash can show half of a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataMode {
    /// Durable when the write returns: one copy and one fence over what is there. A crash within an overwrite leaves
    /// any mixture of old and new in its range. On a file each write waits for the disk.
    #[default]
    Sync,
    /// Durable when the write returns, and all or nothing up to [`ATOMIC_BYTES_MAX`]: new pages take the place of old
    /// ones. Costs a second fence and a record.
    Atomic,
    /// Durable at fsync. The default on a file, whose barrier is an fdatasync; on memory equal to `Sync`.
    Posix,
}

/// Bytes of one write that are all or nothing under [`DataMode::Atomic`]; a longer write is cut into such parts.
pub const ATOMIC_BYTES_MAX: u64 = 1 << 20;

impl DataMode {
    /// Every mode with its name, in the order help texts show them.
    pub const ALL: [(&'static str, Self); 3] = [("sync", Self::Sync), ("atomic", Self::Atomic), ("posix", Self::Posix)];

    /// The mode called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}

/// A file system to be made.
#[derive(Clone, Copy, Debug)]
pub struct FsSpec {
    /// Bytes from which on a file is moved to pages of 2 MiB; `None`: never.
    pub super_threshold_bytes: Option<u64>,
    /// Owner of the root directory.
    pub uid: u32,
    /// Group of the root directory.
    pub gid: u32,
    /// Permissions of the root directory.
    pub mode: u16,
    /// Seeds the hashes of names; choose a number that others cannot guess.
    pub hash_seed: u64,
    /// When it is made.
    pub now: Time,
}

/// The default size in bytes from which on files move to superpages.
pub const SUPER_THRESHOLD_BYTES: u64 = 8 << 20;

/// Options for opening a file system.
#[derive(Clone)]
pub struct FsOptions {
    /// When data is durable; `None`: [`DataMode::Sync`] on memory, [`DataMode::Posix`] on a file.
    pub data: Option<DataMode>,
    /// Refuses every change.
    pub read_only: bool,
    /// The time of changes.
    pub clock: FsClock,
}

impl std::fmt::Debug for FsOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FsOptions")
            .field("data", &self.data)
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}
