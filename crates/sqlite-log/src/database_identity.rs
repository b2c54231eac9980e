//! The identity of the file that a log belongs to.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use ferrite_pool::tie::{Generation, TieStamp};
use serde::{Deserialize, Serialize};

use super::tied::{log_identity, log_number};
use super::{DatabaseFile, DatabaseHeader, PlainFile};
use crate::Result;

/// The version of attributes that include the identity of the log.
const ATTRIBUTES: u64 = 2;

/// The stamp in the header of a database file, on its way to the pool's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    /// The identity of the log.
    pub log: u64,
    /// The generation of the file.
    pub generation: u64,
}

impl FileStamp {
    fn of(stamp: &TieStamp) -> Self {
        Self { log: log_number(&stamp.identity), generation: stamp.generation.number() }
    }

    /// The stamp; `None` for a generation that no tie reaches.
    pub(super) fn stamp(self) -> Option<TieStamp> {
        Some(TieStamp { identity: log_identity(self.log), generation: Generation::of(self.generation)? })
    }
}

/// The properties that distinguish a file from all other files that its path ever named (WF9).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct DatabaseIdentity {
    /// The device number of the file; another mount of the device changes the number.
    pub device: u64,
    /// The inode number of the file. Another file may get the number after this file was deleted.
    pub inode: u64,
    /// The birth time of the file, in nanoseconds since 1970; 0 if the file system does not store one.
    #[serde(default)]
    pub birth: u64,
    /// True if the header of the file says that the log is in a pool.
    #[serde(default)]
    pub is_marked: bool,
    /// The stamp in the header of the file.
    pub stamp: Option<FileStamp>,
}

impl DatabaseIdentity {
    /// Returns the identity of the file that `found` describes and whose header is `header`.
    pub fn of(found: &Metadata, header: Option<&DatabaseHeader>) -> Self {
        let since = found.created().ok().and_then(|birth| birth.duration_since(UNIX_EPOCH).ok());
        let birth = since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        let is_marked = header.is_some_and(DatabaseHeader::is_marked);
        // A header with its own versions belongs to no log, even if the place of the stamp holds old bytes.
        let stamp = header.filter(|header| header.is_marked()).and_then(|header| header.stamp.as_ref());
        let stamp = stamp.map(FileStamp::of);
        Self { device: found.dev(), inode: found.ino(), birth, is_marked, stamp }
    }

    /// Returns the identity of an open file that no SQLite of this process has open.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn of_file(file: &PlainFile<'_>) -> Result<Self> {
        let found = file.file.metadata().map_err(|error| (file.fail)(format!("looking at {}", file.path), error))?;
        Ok(Self::of(&found, file.header()?.as_ref()))
    }

    /// Returns true if `other`, which was found by the same path, is the same file.
    pub(super) fn is(self, other: Self) -> bool {
        let is_known = self.birth != 0 && other.birth != 0;
        self.inode == other.inode && (!is_known || self.birth == other.birth)
    }

    /// Returns true if `other`, which was found by another path, is this file, whose log has content. The inode number alone
    /// does not suffice: files on other devices and a new file after a deletion may have the same number.
    pub(super) fn is_anywhere(self, other: Self) -> bool {
        let is_known = self.birth != 0 && other.birth != 0;
        self.is(other) && (is_known || (self.device == other.device && other.is_marked))
    }

    pub(super) fn of_attributes(attributes: &[u8; 64]) -> Self {
        let word = |at: usize| u64::from_le_bytes(attributes[at..at + 8].try_into().expect("eight bytes"));
        Self { device: word(0), inode: word(8), birth: word(16), is_marked: false, stamp: None }
    }

    /// Returns the attributes of the tag of the log, whose identity is `log`.
    pub(super) fn attributes(self, log: u64) -> [u8; 64] {
        let mut attributes = [0; 64];
        let words = [self.device, self.inode, self.birth, ATTRIBUTES, log];
        for (place, word) in attributes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        attributes
    }
}

/// Returns the identity of the log in the attributes of its tag, or 0 for a tag without one.
pub(super) fn log_of(attributes: &[u8; 64]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(attributes[at..at + 8].try_into().expect("eight bytes"));
    if word(24) < ATTRIBUTES { 0 } else { word(32) }
}
