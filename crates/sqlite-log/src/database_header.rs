//! The header of a database file: two versions, and the stamp of its tie to a log in a pool.
//!
//! ```text
//! 0 "SQLite format 3\0"   18 write version u8   19 read version u8   72 stamp [20], zeros without a pool   92
//! ```
//!
//! SQLite calls bytes 72 to 92 reserved for expansion: it keeps them whenever it writes page 1, and reads them nowhere.

use std::fs::File as OsFile;
use std::io::{Error as OsError, ErrorKind};
use std::os::unix::fs::FileExt;

use ferrite_pool::tie::{STAMP_BYTES, TieRole, TieStamp};

use super::DatabaseMark;
use crate::{Error, Result};

/// Offset of the stamp in the file.
pub const STAMP_AT: u64 = 72;
/// Bytes up to the end of the stamp.
pub const HEAD_BYTES: usize = STAMP_AT as usize + STAMP_BYTES;

/// The fields of a database file's header that a log in a pool needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatabaseHeader {
    /// The two versions.
    pub versions: [u8; 2],
    /// The stamp of the tie to a log.
    pub stamp: Option<TieStamp>,
    /// True if the place of the stamp holds other bytes.
    pub is_stamp_taken: bool,
}

impl DatabaseHeader {
    /// Returns the header in the first bytes of a database file, or `None` if they are not a header.
    pub fn of(head: &[u8; HEAD_BYTES]) -> Option<Self> {
        let versions = DatabaseMark::of_header(head.first_chunk().expect("it is longer"))?;
        let bytes = head.last_chunk::<STAMP_BYTES>().expect("it is longer");
        let stamp = TieStamp::decode(TieRole::Sqlite, bytes);
        Some(Self { versions, stamp, is_stamp_taken: stamp.is_none() && *bytes != [0; STAMP_BYTES] })
    }

    /// Returns true if the header says that the log is in a pool.
    pub fn is_marked(&self) -> bool {
        self.versions[1] == DatabaseMark::FOREIGN
    }
}

/// Access to a database file by one program.
pub trait DatabaseFile {
    /// An error of the file, or a refusal of the log.
    type Error: From<Error>;

    /// Returns the header on disk, or `None` if the file has no header.
    ///
    /// # Errors
    /// The errors of the file.
    fn header(&self) -> std::result::Result<Option<DatabaseHeader>, Self::Error>;

    /// Writes `bytes` at byte `at`.
    ///
    /// # Errors
    /// The errors of the file.
    fn put(&self, at: u64, bytes: &[u8]) -> std::result::Result<(), Self::Error>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// The errors of the file.
    fn persist(&self) -> std::result::Result<(), Self::Error>;
}

/// A database file that no SQLite of this process has open.
pub struct PlainFile<'a> {
    /// The open file.
    pub file: &'a OsFile,
    /// The path of the file.
    pub path: &'a str,
    /// Makes an error of the action that failed.
    pub fail: fn(String, OsError) -> Error,
}

impl PlainFile<'_> {
    fn failed(&self, what: &str, error: OsError) -> Error {
        (self.fail)(format!("{what} the header of {}", self.path), error)
    }
}

impl DatabaseFile for PlainFile<'_> {
    type Error = Error;

    fn header(&self) -> Result<Option<DatabaseHeader>> {
        let mut head = [0; HEAD_BYTES];
        match self.file.read_exact_at(&mut head, 0) {
            Ok(()) => Ok(DatabaseHeader::of(&head)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(self.failed("reading", error)),
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, at).map_err(|error| self.failed("writing", error))
    }

    fn persist(&self) -> Result<()> {
        self.file.sync_all().map_err(|error| self.failed("syncing", error))
    }
}
