//! Which file a log is of.

use std::fs::{File as OsFile, Metadata};
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use super::Mark;
use super::give_back::header_versions;

/// What tells a file from every other that its path ever named (WF9).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Identity {
    /// The device that it is on, until that is mounted again.
    pub device: u64,
    /// Its inode there. Another file may get it when this one was deleted.
    pub inode: u64,
    /// When that was made, in nanoseconds since 1970; 0 where its file system does not say.
    #[serde(default)]
    pub birth: u64,
    /// Its header says that its log is in a pool.
    #[serde(default)]
    pub is_marked: bool,
}

impl Identity {
    /// That of the file that `found` is about, and whose header says that its log is in a pool, or not.
    pub fn of(found: &Metadata, is_marked: bool) -> Self {
        let since = found.created().ok().and_then(|birth| birth.duration_since(UNIX_EPOCH).ok());
        let birth = since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        Self { device: found.dev(), inode: found.ino(), birth, is_marked }
    }

    /// That of an open file.
    pub(super) fn of_file(file: &OsFile) -> std::io::Result<Self> {
        let is_marked = header_versions(file)?.is_some_and(|[_, read]| read == Mark::FOREIGN);
        Ok(Self::of(&file.metadata()?, is_marked))
    }

    /// Whether `other` is the same file, where both were found by one path.
    pub(super) fn is(self, other: Self) -> bool {
        let is_known = self.birth != 0 && other.birth != 0;
        self.inode == other.inode && (!is_known || self.birth == other.birth)
    }

    /// Whether `other` is this file, whose log has something in it, by another path. The inode alone is also that of a file
    /// on each other device, and of a new one where this was deleted.
    pub(super) fn is_anywhere(self, other: Self) -> bool {
        let is_known = self.birth != 0 && other.birth != 0;
        self.is(other) && (is_known || (self.device == other.device && other.is_marked))
    }

    pub(super) fn of_attributes(attributes: &[u8; 64]) -> Self {
        let word = |at: usize| u64::from_le_bytes(attributes[at..at + 8].try_into().expect("eight bytes"));
        Self { device: word(0), inode: word(8), birth: word(16), is_marked: false }
    }

    pub(super) fn attributes(self) -> [u8; 64] {
        let mut attributes = [0; 64];
        for (place, word) in attributes.chunks_exact_mut(8).zip([self.device, self.inode, self.birth]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        attributes
    }
}
