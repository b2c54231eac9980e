//! The log files of a SQLite database, kept in a pool while the pages of the database stay in a file on ordinary storage.
//!
//! ```text
//! tag     named by the absolute path of the database file
//!   attributes  0 device u64   8 inode u64   16 birth time u64 of that file   24 version u64   32 identity of the log u64
//!   MAP page    0 mark    64 length of WAL    128 length of the journal    192 alone    256 current    320 previous: words,
//!               see below; the rest is zeros
//!   WAL         role 2, the bytes of the write-ahead log
//!   JOURNAL     role 3, the bytes of the rollback journal
//!
//! word    0 for no value, else checked (see `ferrite_pool::checked_word`) with the low half of the tag's generation
//! length  bytes of the file + 1
//! alone   1: the process that has the log has it alone, and later owners of the pool must respect that
//! current, previous   the generations of the tie to the file, see `ferrite_pool::tie`
//! mark    bits 0..8 the write version and 8..16 the read version that the file's header would have, 16 MARKED: on disk
//!         they say 3, 17 GIVEN: a log beside the file counts more than this one, 18 set
//! ```
//!
//! Several processes write to a log at once, each by its own grant. The locks of the database order their writes.
//!
//! - WF1. A completed write is durable at once if a fence makes it durable; else with the next [`DatabaseLog::persist`]. If
//!   a process is killed during a write, the next opening of the log sees the part of the write that is durable.
//! - WF2. One word says whether a file exists, and its length. When a file begins to exist, its first line holds no bytes
//!   of a deleted file, so an old header never makes old records valid.
//! - WF3. A log has content only while MARKED is set, and MARKED is set only while the header on disk says 3: a program
//!   that does not know of the pool refuses the file.
//! - WF4. The log is given back in this order: nothing beside the database by a log's name, copies under another name,
//!   GIVEN, the copies durable and then named, the header's own versions on disk, the log emptied. After a crash at any
//!   point exactly one place has the valid data, and the states name that place. Until the end no other process opens the
//!   log, also if another process becomes the owner of the pool.
//! - WF5. A log with content is given up only on an explicit request, and the header gets its own versions again only
//!   after that. A program that finds the header at 3 and no MARKED reports that the log is elsewhere, and changes neither.
//! - WF6. A [`DatabasePool`] and its logs belong to the process that opened them. In a child of fork, where two processes
//!   would use one allocator or read one socket, they do nothing, and dropping them ends nothing of the parent's.
//! - WF7. While the header says 3, another program opens the database only with a page 1 in a file that has a log's name.
//!   Without such a file the program is refused. With such a file, but without a page 1 in it, the program may have copied
//!   the content of the file into the database and removed the file before it was refused: the log does that again. So
//!   after GIVEN, with the header at 3 and no such file, the log is still complete and valid, and the giving back is undone.
//! - WF8. A program that opened the database in this way may commit. It removes the file only when the database has its
//!   page 1, and so the header has its own versions. So after GIVEN, with such a file or with the header's own versions, the
//!   files beside the database are valid, and the giving back is finished. A header at 3 gets its versions while no process
//!   has the database open; a header with its own versions stays.
//! - WF9. A log belongs to the file with its path and its inode and, if both are known, its birth time. The device is not
//!   compared: its number changes when it is mounted again. If no birth time is known, the opening process finds the header
//!   at 3, no header, or a giving back; with another header the file is refused as replaced. A file found by another path
//!   is the same file by its birth time, or by its device and a header at 3: it was renamed, and its tag takes the new
//!   name. Another file with the stamp of a log is a copy, and is refused.
//! - WF10. A file at 3 has the stamp of its log's tie (`ferrite_pool::tie`). The tie advances before the first write to the
//!   file after a lock was taken or, in a file that one process has locked alone, after a write to the log; and before
//!   copies of the log are named. So a file never changes under a generation that an older copy of the log has, and every
//!   opening, giving back and write compares file and log first. A tag of a version without an identity gets an identity at
//!   the first opening, and such a tag matches a file without a stamp.
//! - WF11. While MARKED is not set, the file is not at 3, or is about to be. The owner advances the pool's side of the tie
//!   when a log in that state is opened, and so does the last step of unmarking: the next marking has a generation that no
//!   copy has.

mod counted;
mod database_header;
mod database_identity;
mod database_list;
mod database_mark;
mod database_pool;
mod error;
mod forget;
mod give_back;
mod journal_files;
mod lock;
mod request;
mod service;
mod tied;

#[cfg(test)]
mod tests;

use std::io::ErrorKind::NotFound;
use std::path::PathBuf;
use std::sync::Arc;
use std::{fmt, fs};

use ferrite_memory::Memory;
use ferrite_pool::grant::GrantId;
use parking_lot::{MappedRwLockReadGuard, RwLock, RwLockReadGuard};

use counted::{LogCounts, LogOp};
use journal_files::JournalFiles;

pub use database_header::{DatabaseFile, DatabaseHeader, HEAD_BYTES, PlainFile, STAMP_AT};
pub use database_identity::{DatabaseIdentity, FileStamp};
pub use database_list::{DatabaseEntry, log_of_file};
pub use database_mark::DatabaseMark;
pub use database_pool::DatabasePool;
pub use error::{Error, Result};
pub use forget::{ELSEWHERE, Forgotten, forget};
pub use give_back::{GiveBack, GiveBackProgress, persist_folder};
pub use journal_files::JournalFile;
pub use request::{DATABASE, DatabaseRequest};
pub use service::{DatabaseLogs, DatabaseService};

/// The log files of one database, which a process has by a grant. Dropping it gives the grant back.
///
/// In a child of fork every call is refused ([`crate::Error::Refused`]), and dropping does nothing: the child must open the
/// log itself.
///
/// A method that reads a word of the log returns [`crate::Error::Refused`] if the word is damaged. A method that makes data
/// durable returns [`crate::Error::Medium`] if the memory fails; then the writes since the last [`DatabaseLog::persist`] may
/// be lost.
pub struct DatabaseLog {
    log_pool: Arc<DatabasePool>,
    memory: Arc<dyn Memory>,
    path: String,
    leased: RwLock<LeasedLog>,
}

/// A log as this process has it now.
struct LeasedLog {
    id: GrantId,
    files: JournalFiles,
    counts: LogCounts,
}

impl fmt::Debug for DatabaseLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DatabaseLog {
    /// Opens the log of the database file at `path`, whose identity is `identity`, and makes the log if it does not exist.
    /// If `alone` is true, no other process may have the log until it is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] if other processes have the log and `alone` or their own opening forbids sharing, if
    /// `identity` is not the file that the log belongs to, or if the path has more than 255 bytes or control characters.
    /// Else as [`DatabasePool::ask`].
    pub fn open(log_pool: &Arc<DatabasePool>, path: &str, identity: DatabaseIdentity, alone: bool) -> Result<Self> {
        let fresh = log_pool.random();
        let request = DatabaseRequest::Open { path: path.into(), identity, alone, fresh };
        let (lease, memory, counts) = log_pool.lease(&request)?;
        let files = lease.files(&memory)?;
        files.inherit();
        let leased = RwLock::new(LeasedLog { id: lease.id, files, counts });
        Ok(Self { log_pool: Arc::clone(log_pool), memory, path: path.into(), leased })
    }

    /// Returns the path of the database file.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Refuses a log that the parent of this process opened (WF6).
    ///
    /// # Errors
    /// [`crate::Error::Refused`] in a child of fork.
    pub fn ensure_ours(&self) -> Result<()> {
        self.log_pool.ensure_ours()
    }

    fn files(&self) -> Result<MappedRwLockReadGuard<'_, JournalFiles>> {
        self.ensure_ours()?;
        Ok(RwLockReadGuard::map(self.leased.read(), |leased| &leased.files))
    }

    /// Does `work` and counts it, except in a child of fork, which counts nothing of its parent's.
    fn counted<T>(&self, op: LogOp, work: impl FnOnce(&mut usize) -> Result<T>) -> Result<T> {
        self.ensure_ours()?;
        // `work` may replace the lease.
        let counts = self.leased.read().counts.clone();
        counts.counted(op, work)
    }

    /// Returns the length of `file` in bytes, or `None` if the file does not exist.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn length(&self, file: JournalFile) -> Result<Option<u64>> {
        self.files()?.length(file)
    }

    /// Returns true if a file may have content that is not in the database yet. A journal that begins with zeros has no content.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn is_live(&self) -> Result<bool> {
        self.files()?.is_live()
    }

    /// Reads from `file` at byte `at` into `into`. Returns the number of bytes read, which is smaller only at the end of the file.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says; as [`DatabasePool::ask`] if another process has made the file longer.
    pub fn read(&self, file: JournalFile, at: u64, into: &mut [u8]) -> Result<usize> {
        self.counted(LogOp::Read, |moved| {
            let end = (at + into.len() as u64).min(self.length(file)?.unwrap_or(0));
            self.cover(file, end)?;
            *moved = self.files()?.read(file, at, into)?;
            Ok(*moved)
        })
    }

    /// Creates `file`, empty, if it does not exist.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn create(&self, file: JournalFile) -> Result<()> {
        self.counted(LogOp::Names, |_| self.files()?.create(file))
    }

    /// Writes `bytes` to `file` at byte `at`, which may be behind the end of the file (WF1).
    ///
    /// # Errors
    /// An error for which [`crate::Error::is_want_of_space`] returns true if the pool is full: the file did not change. Else
    /// as [`DatabaseLog`] says, and as [`DatabasePool::ask`] if the log must grow.
    pub fn write(&self, file: JournalFile, at: u64, bytes: &[u8]) -> Result<()> {
        self.counted(LogOp::Write, |moved| {
            *moved = bytes.len();
            self.cover(file, at + bytes.len() as u64)?;
            self.files()?.write(file, at, bytes)
        })
    }

    /// Truncates `file` to `length` bytes, if it is longer.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn truncate(&self, file: JournalFile, length: u64) -> Result<()> {
        self.counted(LogOp::Names, |_| self.truncate_now(file, length))
    }

    fn truncate_now(&self, file: JournalFile, length: u64) -> Result<()> {
        let files = self.files()?;
        if files.length(file)?.is_none_or(|now| now <= length) {
            return Ok(());
        }
        if length > 0 {
            files.set_length(file, Some(length));
            return Ok(());
        }
        // The next write begins as in a new file (WF2).
        files.set_length(file, None);
        files.persist()?;
        files.create(file)
    }

    /// Deletes `file`, if it exists.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn delete(&self, file: JournalFile) -> Result<()> {
        self.counted(LogOp::Names, |_| {
            self.files()?.set_length(file, None);
            Ok(())
        })
    }

    /// Makes all completed writes durable that are not durable yet.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn persist(&self) -> Result<()> {
        self.counted(LogOp::Sync, |_| self.files()?.persist())
    }

    /// Returns the mark of the log: the versions in the header on disk, and its own versions.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn mark(&self) -> Result<Option<DatabaseMark>> {
        self.files()?.mark()
    }

    /// Stores the mark. Durable on return.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn set_mark(&self, mark: Option<DatabaseMark>) -> Result<()> {
        self.files()?.set_mark(mark)
    }

    /// Returns true if a file with a log's name is beside the database, or if that cannot be found out.
    pub fn is_beside(&self) -> bool {
        let is_gone = |file| matches!(fs::symlink_metadata(self.beside(file)), Err(error) if error.kind() == NotFound);
        !JournalFile::ALL.into_iter().all(is_gone)
    }

    /// Returns the path that `file` has beside the database.
    fn beside(&self, file: JournalFile) -> PathBuf {
        format!("{}{}", self.path, file.suffix()).into()
    }

    /// Empties the log, ends its generation, and then removes the mark: the pool has nothing of the database. Durable on return.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn empty(&self) -> Result<()> {
        JournalFile::ALL.iter().try_for_each(|file| self.delete(*file))?;
        self.persist()?;
        self.end_generation()?;
        self.set_mark(None)
    }

    /// Sees to it that the first `end` bytes of `file` have space here: another process may have made it longer.
    fn cover(&self, file: JournalFile, end: u64) -> Result<()> {
        if end <= self.files()?.space(file) {
            return Ok(());
        }
        let mut leased = self.leased.write();
        let (lease, _, counts) = self.log_pool.lease(&DatabaseRequest::Extend { id: leased.id, file, bytes: end })?;
        *leased = LeasedLog { id: lease.id, files: lease.files(&self.memory)?, counts };
        Ok(())
    }
}

impl Drop for DatabaseLog {
    fn drop(&mut self) {
        // Where it fails the owner takes the grant back when this process has ended.
        let _ = self.log_pool.ask::<()>(&DatabaseRequest::Close { id: self.leased.get_mut().id });
    }
}
