//! The entry of a log in a list, compared with its file.

use std::fs::File as OsFile;
use std::path::Path;

use ferrite_pool::tie::{Generation, Tie, compare};
use serde::{Deserialize, Serialize};

use super::tied::{Places, log_identity, log_number, mismatch_text};
use super::{DatabaseFile, Header, PlainFile};
use crate::Error;

/// A database with a log in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseEntry {
    /// The path of its file.
    pub path: String,
    /// Bytes in the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes in the rollback journal.
    pub journal_bytes: u64,
    /// Bytes of the pool that it takes.
    pub space_bytes: u64,
    /// The processes that have it open.
    pub processes: Vec<u32>,
    /// Its file's header says that it is not for programs that do not know of the pool.
    pub marked: bool,
    /// The identity of the log, 16 hexadecimal digits; empty in a tag of a version that had none.
    #[serde(default)]
    pub log: String,
    /// The count of its generation, which grows with each checkpoint; 0 before the first.
    #[serde(default)]
    pub generation: u64,
    /// The numbers of its current and of its previous generation; 0: none.
    #[serde(default)]
    pub generations: [u64; 2],
}

impl DatabaseEntry {
    /// Why the log, which is in the pool at `pool` and which no process has open, does not go together with its file; `None` if
    /// it does, or if the file cannot be read.
    pub fn refusal(&self, pool: &Path) -> Option<String> {
        let log = u64::from_str_radix(&self.log, 16).ok()?;
        let [current, previous] = self.generations.map(Generation::of);
        let tie = Tie { identity: log_identity(log), current: current?, previous };
        let stamp = header_at(&self.path)?.stamp;
        let verdict = compare(&tie, stamp.as_ref());
        let places = Places { path: &self.path, pool };
        let sides = [Some(&tie.stamp()), stamp.as_ref()];
        (self.marked && !verdict.is_good())
            .then(|| mismatch_text(&places, verdict, sides, self.wal_bytes + self.journal_bytes))
    }
}

/// The identity of the log that the file at `path` says to have in a pool, as [`DatabaseEntry::log`] shows it.
pub fn log_of_file(path: &str) -> Option<String> {
    header_at(path)?.stamp.map(|stamp| format!("{:016x}", log_number(&stamp.identity)))
}

/// The header of the file at `path`, if it is marked.
fn header_at(path: &str) -> Option<Header> {
    let file = OsFile::open(path).ok()?;
    let plain = PlainFile { file: &file, path, fail: |doing, error| Error::io(doing, error) };
    plain.header().ok()?.filter(Header::is_marked)
}
