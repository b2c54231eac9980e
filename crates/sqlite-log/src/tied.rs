//! The tie between a database file and its log: comparing both sides, moving both on, and messages about a mismatch.

use std::path::Path;

use ferrite_pool::tie::{self, Generation, PoolSide, Tie, TieEnds, TieRole, TieStamp, TieVerdict, compare};

use super::database_header::STAMP_AT;
use super::journal_files::JournalFiles;
use super::{DatabaseFile, DatabaseHeader, DatabaseIdentity, DatabaseLog, DatabaseMark, ELSEWHERE, FileStamp};
use crate::{Error, Result};

/// Attempts to read both sides while another program moves them.
const TRIES: u32 = 10_000;

/// The log and its file.
pub(super) struct TiedLog<'a, L, F> {
    pub log: &'a L,
    pub file: &'a F,
}

impl<L: PoolSide<Error = Error>, F: DatabaseFile> PoolSide for TiedLog<'_, L, F> {
    type Error = F::Error;

    fn load(&self) -> std::result::Result<Tie, F::Error> {
        Ok(self.log.load()?)
    }

    fn set_current(&self, current: Generation) -> std::result::Result<(), F::Error> {
        Ok(self.log.set_current(current)?)
    }

    fn set_previous(&self, previous: Option<Generation>) -> std::result::Result<(), F::Error> {
        Ok(self.log.set_previous(previous)?)
    }
}

impl PoolSide for DatabaseLog {
    type Error = Error;

    fn load(&self) -> Result<Tie> {
        self.tie()
    }

    fn set_current(&self, current: Generation) -> Result<()> {
        self.files()?.set_current(current)
    }

    fn set_previous(&self, previous: Option<Generation>) -> Result<()> {
        self.files()?.set_previous(previous)
    }
}

impl<L: PoolSide<Error = Error>, F: DatabaseFile> TieEnds for TiedLog<'_, L, F> {
    fn read(&self) -> std::result::Result<Option<TieStamp>, F::Error> {
        Ok(self.file.header()?.and_then(|header| header.stamp))
    }

    fn write(&self, stamp: &TieStamp) -> std::result::Result<(), F::Error> {
        self.file.put(STAMP_AT, &stamp.encode(TieRole::Sqlite))?;
        self.file.persist()
    }
}

/// The state of a database in the pool at one instant.
struct PoolView {
    mark: Option<DatabaseMark>,
    tie: Tie,
    is_live: bool,
}

impl DatabaseLog {
    /// Returns the pool's side of the tie to the database file.
    ///
    /// # Errors
    /// As [`DatabaseLog`] says.
    pub fn tie(&self) -> Result<Tie> {
        self.files()?.tie()?.ok_or_else(|| Error::Refused(format!("the log of {} has no generation", self.path)))
    }

    fn view(&self) -> Result<PoolView> {
        // Reads the log first: the mark was set before the log got content.
        let is_live = self.is_live()?;
        Ok(PoolView { mark: self.mark()?, tie: self.tie()?, is_live })
    }

    /// Refuses the database file `file` unless the log matches it (WF5, WF9, WF10), and writes nothing. Returns the
    /// file's header.
    ///
    /// # Errors
    /// [`Error::Refused`] with both sides and the ways out; the errors of the file; else as [`DatabaseLog`] says.
    pub fn verify<F: DatabaseFile>(&self, file: &F) -> std::result::Result<Option<DatabaseHeader>, F::Error> {
        self.compared(file, true)
    }

    /// Does [`DatabaseLog::verify`] for a connection that has the file open, which may have written a new header
    /// itself.
    ///
    /// # Errors
    /// As [`DatabaseLog::verify`].
    pub fn verify_open<F: DatabaseFile>(&self, file: &F) -> std::result::Result<Option<DatabaseHeader>, F::Error> {
        self.compared(file, false)
    }

    fn compared<F: DatabaseFile>(
        &self,
        file: &F,
        is_opening: bool,
    ) -> std::result::Result<Option<DatabaseHeader>, F::Error> {
        let mut before = self.view()?;
        for _ in 0..TRIES {
            let header = file.header()?;
            let after = self.view()?;
            if (before.mark, before.tie) == (after.mark, after.tie) {
                let is_live = is_opening && before.is_live && after.is_live;
                self.judge(header.as_ref(), &PoolView { is_live, ..after })?;
                return Ok(header);
            }
            before = after;
        }
        Err(Error::Refused(format!("{} is being changed: try again", self.path)).into())
    }

    fn judge(&self, header: Option<&DatabaseHeader>, pool: &PoolView) -> Result<()> {
        let Some(header) = header else { return Ok(()) };
        match pool.mark {
            None if header.is_marked() => Err(Error::Refused(format!("{}: {ELSEWHERE}", self.path))),
            Some(_) if header.is_marked() => match compare(&pool.tie, header.stamp.as_ref()) {
                verdict if verdict.is_good() => Ok(()),
                verdict => Err(self.mismatch(verdict, &pool.tie, header.stamp.as_ref())),
            },
            Some(mark) if mark.is_given => Ok(()),
            _ if pool.is_live => Err(Error::Refused(format!(
                "{} was replaced while its log was in the pool: put the file back that it belongs to, or give the log up \
                 with `ferrite wal forget`",
                self.path
            ))),
            _ => Ok(()),
        }
    }

    fn mismatch(&self, verdict: TieVerdict, tie: &Tie, stamp: Option<&TieStamp>) -> Error {
        let bytes = self.files().and_then(|files| files.bytes()).unwrap_or(0);
        let places = TiedPlaces { path: &self.path, pool: self.log_pool.path() };
        Error::Refused(mismatch_text(&places, verdict, [Some(&tie.stamp()), stamp], bytes))
    }

    /// Moves file and log to a new generation (WF10), if the file has a header: after that, an older copy of the log is
    /// refused. The caller holds a lock that excludes all other writers of the file.
    ///
    /// # Errors
    /// [`Error::Refused`], before anything is written, if the two do not match; else as [`DatabaseLog::verify`].
    pub fn advance<F: DatabaseFile>(&self, file: &F) -> std::result::Result<(), F::Error> {
        if file.header()?.is_none() {
            return Ok(());
        }
        let ends = TiedLog { log: self, file };
        let verdict = tie::advance(&ends, self.log_pool.nonce())?;
        if !verdict.is_good() {
            return Err(self.mismatch(verdict, &self.tie()?, ends.read()?.as_ref()).into());
        }
        Ok(())
    }

    /// Marks the header of `file`, if it has one, to say that the log is in the pool, and writes the stamp of the tie.
    /// Durable on return.
    ///
    /// # Errors
    /// The errors of the file; else as [`DatabaseLog`] says.
    pub fn mark_file<F: DatabaseFile>(&self, file: &F) -> std::result::Result<(), F::Error> {
        mark_header(&TiedLog { log: self, file })
    }

    /// Writes the versions of `mark` to the header of `file`, and removes the stamp. Durable on return.
    ///
    /// # Errors
    /// The errors of the file.
    pub fn unmark_file<F: DatabaseFile>(&self, file: &F, mark: DatabaseMark) -> std::result::Result<(), F::Error> {
        give_versions(file, [mark.write, mark.read])
    }

    /// Ends the generation of a file that has its own versions again: no older copy of the log matches the file when it
    /// is marked later.
    pub(super) fn end_generation(&self) -> Result<()> {
        tie::renew(&*self.files()?, None, self.log_pool.nonce())?;
        Ok(())
    }
}

/// Marks the header of the file of `ends`, if it has one, and writes the stamp of the tie. Durable on return.
pub(super) fn mark_header<L: PoolSide<Error = Error>, F: DatabaseFile>(
    ends: &TiedLog<'_, L, F>,
) -> std::result::Result<(), F::Error> {
    let file = ends.file;
    if file.header()?.is_none() {
        return Ok(());
    }
    file.put(DatabaseMark::AT, &[DatabaseMark::FOREIGN; 2])?;
    match tie::attach(ends)? {
        true => Ok(()),
        false => file.persist(),
    }
}

/// Writes `versions` to the header of `file`, if it says that the log is in a pool, and removes the stamp.
pub(super) fn give_versions<F: DatabaseFile>(file: &F, versions: [u8; 2]) -> std::result::Result<(), F::Error> {
    let Some(header) = file.header()? else { return Ok(()) };
    if header.stamp.is_some() {
        file.put(STAMP_AT, &[0; tie::STAMP_BYTES])?;
    }
    if header.is_marked() {
        file.put(DatabaseMark::AT, &versions)?;
    }
    file.persist()
}

/// The paths of the two sides, for messages.
pub(super) struct TiedPlaces<'a> {
    pub path: &'a str,
    pub pool: &'a Path,
}

/// Returns the message about two sides that do not match: the stamps of the log and of the file.
pub(super) fn mismatch_text(
    places: &TiedPlaces<'_>,
    verdict: TieVerdict,
    [log, file]: [Option<&TieStamp>; 2],
    bytes: u64,
) -> String {
    let (path, pool) = (places.path, places.pool.display());
    let show = |stamp: Option<&TieStamp>| {
        stamp.map_or("without a generation".into(), |stamp| {
            format!("of log {:016x}, generation {}", log_number(&stamp.identity), stamp.generation)
        })
    };
    let why = match verdict {
        TieVerdict::ObjectLater => "the file is later: this pool is an older copy, or was restored from an older image",
        TieVerdict::PoolLater => "the pool is later: the file is an older copy",
        TieVerdict::Diverged => "two copies went on separately",
        TieVerdict::OtherIdentity => "the file has its log in another pool, or had",
        _ => "another program wrote the header of the file",
    };
    format!(
        "{path} and its log in {pool} do not go together: {why}. The pool's tag {path} is {}; the file is {}. Nothing was \
         changed. Open the database with the pool that has its generation: nothing is lost. Or put the database file of the \
         tag's generation back: what was written to the file since is lost. Or give this log up with `ferrite wal forget \
         {pool} {path} --lose {bytes}`: the {bytes} bytes in it are lost",
        show(log),
        show(file)
    )
}

/// Returns the identity of a log as a number.
pub(super) fn log_number(identity: &[u8; 16]) -> u64 {
    u64::from_le_bytes(*identity.first_chunk().expect("it is longer"))
}

/// Returns the identity of the tie of log `number`.
pub(super) fn log_identity(number: u64) -> [u8; 16] {
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&number.to_le_bytes());
    identity
}

/// Begins a generation that no copy of the log has, unless its file is marked: then only a program with the file's
/// locks moves both on. If the file's stamp does not match the log, the calling program refuses the file (WF11).
pub(super) fn begin_generation(files: &JournalFiles, identity: DatabaseIdentity, fresh: u64) -> Result<()> {
    let nonce = (fresh >> 48) as u16;
    let Some(tie) = files.tie()? else {
        return files.set_current(Generation::first(nonce));
    };
    if files.mark()?.is_some_and(|mark| mark.is_on_disk) {
        return Ok(());
    }
    let stamp = identity.stamp.and_then(FileStamp::stamp).filter(|stamp| stamp.identity == tie.identity);
    if stamp.is_none() || compare(&tie, stamp.as_ref()).is_good() {
        tie::renew(files, stamp, nonce)?;
    }
    Ok(())
}

/// Returns the message about a copy of the database `original`, whose log has `bytes` bytes.
pub(super) fn copy_text(path: &str, original: &str, bytes: u64) -> String {
    format!(
        "{path} is a copy of {original}, whose log is in this pool: open {original}; or give its log back with `ferrite wal drain` \
         and copy it again; or make the copy a database of its own with `ferrite wal forget`: it lacks the {bytes} bytes in the \
         log then"
    )
}
