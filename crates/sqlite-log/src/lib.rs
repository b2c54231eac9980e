//! A database's own log files, kept in the pool while its pages stay in a file on ordinary storage.
//!
//! ```text
//! tag     named by the absolute path of the database file
//!   attributes  0 device u64   8 inode u64   16 birth time u64 of that file   24 version u64   32 identity of the log u64
//!   MAP page    0 mark    64 length of WAL    128 length of the journal    192 alone    256 current    320 previous: words,
//!               see below; the rest is zeros
//!   WAL         role 2, the bytes of the write-ahead log
//!   JOURNAL     role 3, the bytes of the rollback journal
//!
//! word    0 where there is none, else sealed (see `ferrite_pool::checked_word`) with the low half of the tag's generation
//! length  bytes of the file + 1
//! alone   1: a process that has the log is to have it alone, also from the owner's successors
//! current, previous   the generations of the tie to the file, see `ferrite_pool::tie`
//! mark    bits 0..8 the write version and 8..16 the read version that the file's header would have, 16 MARKED: on disk
//!         they say 3, 17 GIVEN: a log beside the file counts more than this one, 18 set
//! ```
//!
//! Several processes store here at once, each by a grant of its own, ordered by the database's locks.
//!
//! - WF1. A completed write is durable where a fence is; elsewhere with the next [`DatabaseLog::settle`]. Of one that was
//!   not completed, its process was killed, who opens the log next sees what is durable.
//! - WF2. A file exists, with a length, or not, by one word. What a deleted file held is in no later one's first line
//!   when that begins to exist, so an old header never makes old records whole.
//! - WF3. There is something in a log only while MARKED is set, and MARKED is set only while the header on disk says 3: a
//!   program that does not know of the pool refuses the file.
//! - WF4. The log is given back in this order: nothing beside the database by a log's name, copies under another name,
//!   GIVEN, the copies durable and then named, the header's own versions on disk, the log emptied. Wherever a crash comes,
//!   one place has the truth and it is told which. Until then nobody else opens the log, whoever owns the pool meanwhile.
//! - WF5. A log with something in it is given up only by who says so, and the header has its own versions again only
//!   behind that. Who finds the header at 3 and no MARKED says that the log is elsewhere, and leaves both as they are.
//! - WF6. A log_pool and its logs are of the process that opened them. In a child of fork, where two would decide by one
//!   allocator or read one socket, they do nothing, and dropped there they end nothing of the parent's.
//! - WF7. While the header says 3, another program is let in only by a page 1 in a file that has a log's name. Without one
//!   it is refused; where there was one without a page 1, it may have put what is in it into the database, and taken it
//!   away, before it was refused: the log does that again. So GIVEN, the header at 3, and no such file: the log is the truth
//!   still, whole, and the giving back is undone.
//! - WF8. A program that was let in may commit, and takes the file that let it in away only when the database has its page
//!   1, and so the header its own versions. So GIVEN and such a file, or GIVEN and the header's own versions: what is beside
//!   the database is the truth, and the giving back is finished. The header at 3 gets its versions while nobody has the
//!   database open; one that has its own is left as it is.
//! - WF9. A log is of the file that has its path and its inode and, where both are known, its birth time. The device is not
//!   asked: it has another number when it is mounted again. Where no birth time is known, who opens the log finds the header
//!   at 3, none, or a giving back; with another header the file is refused as replaced. Found by another path, a file is that
//!   one by its birth time, or by its device and a header at 3: it was renamed, and its tag takes the new name. Another file
//!   with the stamp of a log is a copy, and is refused.
//! - WF10. A file at 3 has the stamp of its log's tie (`ferrite_pool::tie`). The tie advances before the first write to the
//!   file that follows a lock that was taken, or, in a file that is locked alone, a write to the log; and before copies of the
//!   log are named. So a file is never changed under a generation that an older copy of the log has, and every opening,
//!   giving back and write compares the two first. A tag of a version without an identity gets one from the first opening,
//!   which a file without a stamp goes together with.
//! - WF11. While MARKED is not set the file is not at 3, or is about to be. The owner moves the pool's side on when a log in
//!   that state is opened, and the last step of unmarking does: what is marked next is of a generation that no copy has.

mod database_pool;
mod error;
mod files;
mod forget;
mod give_back;
mod header;
mod identity;
mod listed;
mod lock;
mod mark;
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

use files::Files;

pub use database_pool::DatabasePool;
pub use error::{Error, Result};
pub use files::File;
pub use forget::{ELSEWHERE, Forgotten, forget};
pub use give_back::{GiveBack, Progress, settle_folder};
pub use header::{DatabaseFile, HEAD_BYTES, Header, PlainFile, STAMP_AT};
pub use identity::{FileStamp, Identity};
pub use listed::{DatabaseEntry, log_of_file};
pub use mark::Mark;
pub use service::{DATABASE, DatabaseLogs, DatabaseRequest, DatabaseService};

/// The log files of one database, as a process has them by a grant. Dropped, the grant is given back.
///
/// In a child of fork all is refused ([`crate::Error::Refused`]), and dropping does nothing: the child opens it for itself.
///
/// What reads a word of the log gives [`crate::Error::Refused`] where that is damaged; what makes something durable
/// gives [`crate::Error::Medium`] where the memory fails, and then what completed since the last
/// [`DatabaseLog::settle`] may be lost.
pub struct DatabaseLog {
    log_pool: Arc<DatabasePool>,
    memory: Arc<dyn Memory>,
    path: String,
    leased: RwLock<(GrantId, Files)>,
}

impl fmt::Debug for DatabaseLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseLog").field("path", &self.path).finish_non_exhaustive()
    }
}

impl DatabaseLog {
    /// The log of the database file at `path`, which is `identity`, made if there is none yet. `alone` where nobody
    /// else may have it, now and until it is dropped.
    ///
    /// # Errors
    /// [`crate::Error::Refused`] where others have it and are in the way, where `identity` is not the file whose log
    /// that is, and for a path of more than 255 bytes or with control characters. Else as [`DatabasePool::ask`].
    pub fn open(log_pool: &Arc<DatabasePool>, path: &str, identity: Identity, alone: bool) -> Result<Self> {
        let fresh = log_pool.random();
        let request = DatabaseRequest::Open { path: path.into(), identity, alone, fresh };
        let (lease, memory) = log_pool.lease(&request)?;
        let files = lease.files(&memory)?;
        files.inherit();
        let leased = RwLock::new((lease.id, files));
        Ok(Self { log_pool: Arc::clone(log_pool), memory, path: path.into(), leased })
    }

    /// The path of the database.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Refuses what is the parent's of this process (WF6).
    ///
    /// # Errors
    /// [`crate::Error::Refused`].
    pub fn ensure_ours(&self) -> Result<()> {
        self.log_pool.ensure_ours()
    }

    fn files(&self) -> Result<MappedRwLockReadGuard<'_, Files>> {
        self.ensure_ours()?;
        Ok(RwLockReadGuard::map(self.leased.read(), |(_, files)| files))
    }

    /// The length of `file` in bytes; `None` where it does not exist.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn length(&self, file: File) -> Result<Option<u64>> {
        self.files()?.length(file)
    }

    /// Whether any file has something in it that is not in the database yet, as far as can be seen from outside: a
    /// journal that begins with zeros has not.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn is_live(&self) -> Result<bool> {
        self.files()?.is_live()
    }

    /// Reads from `file` at byte `at`; how many bytes there are, fewer only at its end.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says; as [`DatabasePool::ask`] where another process has made it longer.
    pub fn read(&self, file: File, at: u64, into: &mut [u8]) -> Result<usize> {
        let end = (at + into.len() as u64).min(self.length(file)?.unwrap_or(0));
        self.cover(file, end)?;
        self.files()?.read(file, at, into)
    }

    /// Makes `file` where it does not exist, empty.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn create(&self, file: File) -> Result<()> {
        self.files()?.create(file)
    }

    /// Writes `bytes` into `file` at byte `at`, which may be behind its end (WF1).
    ///
    /// # Errors
    /// Want of space ([`crate::Error::is_want_of_space`]) where the pool has none for it: the file is as it was. Else as
    /// [`DatabaseLog`] says, and as [`DatabasePool::ask`] where more space is asked for.
    pub fn write(&self, file: File, at: u64, bytes: &[u8]) -> Result<()> {
        self.cover(file, at + bytes.len() as u64)?;
        self.files()?.write(file, at, bytes)
    }

    /// Cuts `file` off at `length` bytes, if it is longer.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn truncate(&self, file: File, length: u64) -> Result<()> {
        let files = self.files()?;
        if files.length(file)?.is_none_or(|now| now <= length) {
            return Ok(());
        }
        if length > 0 {
            files.set_length(file, Some(length));
            return Ok(());
        }
        // So that what is written next begins as in a new file (WF2).
        files.set_length(file, None);
        files.settle()?;
        files.create(file)
    }

    /// Deletes `file`, if it exists.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn delete(&self, file: File) -> Result<()> {
        self.files()?.set_length(file, None);
        Ok(())
    }

    /// Makes everything before durable, where completed writes are not.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn settle(&self) -> Result<()> {
        self.files()?.settle()
    }

    /// What the header on disk says and would say.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn mark(&self) -> Result<Option<Mark>> {
        self.files()?.mark()
    }

    /// Notes it; durable on return.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn set_mark(&self, mark: Option<Mark>) -> Result<()> {
        self.files()?.set_mark(mark)
    }

    /// Whether a file by a log's name is beside the database, or that cannot be told.
    pub fn is_beside(&self) -> bool {
        let is_gone = |file| matches!(fs::symlink_metadata(self.beside(file)), Err(error) if error.kind() == NotFound);
        !File::ALL.into_iter().all(is_gone)
    }

    /// The path that `file` has beside the database.
    fn beside(&self, file: File) -> PathBuf {
        format!("{}{}", self.path, file.suffix()).into()
    }

    /// Ends what is in the log, its generation, and then the mark: nothing is here of the database; durable on return.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn empty(&self) -> Result<()> {
        File::ALL.iter().try_for_each(|file| self.delete(*file))?;
        self.settle()?;
        self.end_generation()?;
        self.set_mark(None)
    }

    /// Sees to it that the first `end` bytes of `file` have space here: another process may have made it longer.
    fn cover(&self, file: File, end: u64) -> Result<()> {
        if end <= self.files()?.space(file) {
            return Ok(());
        }
        let mut leased = self.leased.write();
        let (lease, _) = self.log_pool.lease(&DatabaseRequest::Extend { id: leased.0, file, bytes: end })?;
        *leased = (lease.id, lease.files(&self.memory)?);
        Ok(())
    }
}

impl Drop for DatabaseLog {
    fn drop(&mut self) {
        // Where it fails the owner takes the grant back when this process has ended.
        let _ = self.log_pool.ask::<()>(&DatabaseRequest::Close { id: self.leased.get_mut().0 });
    }
}
