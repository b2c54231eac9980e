//! Which file a log is of.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use ferrite_pool::tie::{Generation, TieStamp};
use serde::{Deserialize, Serialize};

use super::tied::{log_identity, log_number};
use super::{DatabaseFile, Header, PlainFile};
use crate::Result;

/// The version of the attributes that have the identity of the log.
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
    /// The stamp in its header.
    pub stamp: Option<FileStamp>,
}

impl Identity {
    /// The identity of the file that `found` is about and whose header is `header`.
    pub fn of(found: &Metadata, header: Option<&Header>) -> Self {
        let since = found.created().ok().and_then(|birth| birth.duration_since(UNIX_EPOCH).ok());
        let birth = since.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(0);
        let is_marked = header.is_some_and(Header::is_marked);
        // A header with versions of its own says nothing of a log, whatever is left in the place of the stamp.
        let stamp = header.filter(|header| header.is_marked()).and_then(|header| header.stamp.as_ref());
        let stamp = stamp.map(FileStamp::of);
        Self { device: found.dev(), inode: found.ino(), birth, is_marked, stamp }
    }

    /// The identity of an open file that no SQLite of this process has open.
    ///
    /// # Errors
    /// Those of the file.
    pub fn of_file(file: &PlainFile<'_>) -> Result<Self> {
        let found = file.file.metadata().map_err(|error| (file.fail)(format!("looking at {}", file.path), error))?;
        Ok(Self::of(&found, file.header()?.as_ref()))
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
        Self { device: word(0), inode: word(8), birth: word(16), is_marked: false, stamp: None }
    }

    /// The attributes of the tag of the file's log, whose identity is `log`.
    pub(super) fn attributes(self, log: u64) -> [u8; 64] {
        let mut attributes = [0; 64];
        let words = [self.device, self.inode, self.birth, ATTRIBUTES, log];
        for (place, word) in attributes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        attributes
    }
}

/// The identity of the log in the attributes of its tag; 0 in a tag that had none.
pub(super) fn log_of(attributes: &[u8; 64]) -> u64 {
    let word = |at: usize| u64::from_le_bytes(attributes[at..at + 8].try_into().expect("eight bytes"));
    if word(24) < ATTRIBUTES { 0 } else { word(32) }
}
