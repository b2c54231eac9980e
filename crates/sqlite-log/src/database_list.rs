//! The entry of a log in a list, compared with its file.

use std::fs::File as OsFile;
use std::path::Path;

use ferrite_pool::tie::{Generation, Tie, compare};
use serde::{Deserialize, Serialize};

use super::tied::{TiedPlaces, log_identity, log_number, mismatch_text};
use super::{DatabaseFile, DatabaseHeader, PlainFile};
use crate::Error;

/// A database with a log in the pool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatabaseEntry {
    /// The path of the database file.
    pub path: String,
    /// Bytes in the write-ahead log.
    pub wal_bytes: u64,
    /// Bytes in the rollback journal.
    pub journal_bytes: u64,
    /// Bytes of the pool that the log takes.
    pub space_bytes: u64,
    /// The processes that have the database open.
    pub processes: Vec<u32>,
    /// True if the header of the file says that the log is in a pool.
    pub marked: bool,
    /// The identity of the log, 16 hexadecimal digits; empty in a tag of a version that had none.
    #[serde(default)]
    pub log: String,
    /// The number of generations so far, which grows with each checkpoint; 0 before the first.
    #[serde(default)]
    pub generation: u64,
    /// The numbers of the current and of the previous generation; 0 for none.
    #[serde(default)]
    pub generations: [u64; 2],
}

impl DatabaseEntry {
    /// Returns why the log, which is in the pool at `pool` and which no process has open, does not match its file, or `None` if
    /// it matches, or if the file cannot be read.
    pub fn refusal(&self, pool: &Path) -> Option<String> {
        let log = u64::from_str_radix(&self.log, 16).ok()?;
        let [current, previous] = self.generations.map(Generation::of);
        let tie = Tie { identity: log_identity(log), current: current?, previous };
        let stamp = header_at(&self.path)?.stamp;
        let verdict = compare(&tie, stamp.as_ref());
        let places = TiedPlaces { path: &self.path, pool };
        let sides = [Some(&tie.stamp()), stamp.as_ref()];
        (self.marked && !verdict.is_good())
            .then(|| mismatch_text(&places, verdict, sides, self.wal_bytes + self.journal_bytes))
    }
}

/// Returns the identity of the log that the file at `path` names, in the form of [`DatabaseEntry::log`].
pub fn log_of_file(path: &str) -> Option<String> {
    header_at(path)?.stamp.map(|stamp| format!("{:016x}", log_number(&stamp.identity)))
}

/// Returns the header of the file at `path`, if it says that the log is in a pool.
fn header_at(path: &str) -> Option<DatabaseHeader> {
    let file = OsFile::open(path).ok()?;
    let plain = PlainFile { file: &file, path, fail: |doing, error| Error::io(doing, error) };
    plain.header().ok()?.filter(DatabaseHeader::is_marked)
}
