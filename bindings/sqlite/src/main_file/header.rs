//! The two versions in the header on disk, and the pool's word for them. SQLite has every `file` open.

use std::ffi::c_int;
use std::time::Duration;

use ferrite_sqlite_log::Error;
use ferrite_sqlite_log::{DatabaseFile, DatabaseHeader, DatabaseLog, DatabaseMark, HEAD_BYTES, persist_folder};

use super::{ensure_ours, owned};
use crate::abi::{self, File, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_SHARED};
use crate::failure::{Failure, Outcome};
use crate::main_file::below;

/// Number of attempts to lock a database that others have open; [`PAUSE`] is the pause between them.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// The file of the default VFS behind a database file that this process has open.
pub struct Below(pub *mut File);

impl DatabaseFile for Below {
    type Error = Failure;

    fn header(&self) -> Outcome<Option<DatabaseHeader>> {
        match ensure_ours(self.0) {
            abi::OK => header_below(self.0),
            code => Err(Failure::Below { doing: "reading", code }),
        }
    }

    fn put(&self, at: u64, bytes: &[u8]) -> Outcome<()> {
        let file = self.0;
        match pass!(file, write, bytes.as_ptr().cast(), bytes.len() as c_int, at as i64) {
            abi::OK => Ok(()),
            code => Err(Failure::Below { doing: "writing", code }),
        }
    }

    fn persist(&self) -> Outcome<()> {
        let file = self.0;
        match pass!(file, sync, abi::SYNC_NORMAL | abi::SYNC_DATA_ONLY) {
            abi::OK => Ok(()),
            code => Err(Failure::Below { doing: "syncing", code }),
        }
    }
}

/// Returns the header on disk of a file of which only the part below is open.
pub fn header_below(file: *mut File) -> Outcome<Option<DatabaseHeader>> {
    let mut head = [0_u8; HEAD_BYTES];
    match pass_on!(file, read, head.as_mut_ptr().cast(), HEAD_BYTES as c_int, 0) {
        abi::OK => Ok(DatabaseHeader::of(&head)),
        abi::IOERR_SHORT_READ => Ok(None),
        code => Err(Failure::Below { doing: "reading", code }),
    }
}

/// Marks the header (SV1), unless it is marked. The connection has a lock that keeps others from unmarking.
pub fn ensure_marked(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    let log = &main.database.log;
    if main.is_checked.get() && log.mark()?.is_some_and(|mark| mark.is_on_disk) {
        return Ok(());
    }
    let header = log.verify_open(&Below(file))?;
    let mark = match (header, log.mark()?) {
        (Some(header), Some(mark)) if header.is_marked() => mark,
        (Some(header), _) if header.is_stamp_taken => {
            return Err(Error::Refused(
                "bytes 72 to 92 of its header, which SQLite reserves, are in use: open it without Ferrite".into(),
            )
            .into());
        }
        (Some(DatabaseHeader { versions: [write, read], .. }), _) => {
            DatabaseMark { write, read, is_on_disk: false, is_given: false }
        }
        (None, Some(mark)) => mark,
        (None, None) => DatabaseMark { write: 1, read: 1, is_on_disk: false, is_given: false },
    };
    if !mark.is_on_disk || header.is_none_or(|header| header.versions != [DatabaseMark::FOREIGN; 2]) {
        log.set_mark(Some(DatabaseMark { is_on_disk: false, ..mark }))?;
        log.mark_file(&Below(file))?;
        log.set_mark(Some(DatabaseMark { is_on_disk: true, ..mark }))?;
    }
    main.is_checked.set(true);
    Ok(())
}

/// Restores the header's own versions, if no other connection has the file open and the log is empty (SV3). The
/// connection has no lock.
pub fn unmark(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    let log = &main.database.log;
    if main.is_read_only || log.mark()?.is_none() || log.is_live()? {
        return Ok(());
    }
    alone(file, |log, mark| match log.is_live()? {
        true => Ok(()),
        false => take_back(file, log, mark),
    })
}

/// Finishes or undoes a drain that was interrupted (WF7, WF8). The connection has no lock.
pub fn sync_given(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    let log = &main.database.log;
    let is_given = || Ok::<_, Error>(log.mark()?.is_some_and(|mark| mark.is_given));
    // Other programs that open the database do the same.
    for _ in 0..TRIES {
        if main.is_read_only || !is_given()? {
            break;
        }
        alone(file, |log, mark| if mark.is_given { finish_or_undo(file, log, mark) } else { Ok(()) })?;
        std::thread::sleep(PAUSE);
    }
    match is_given()? {
        false => Ok(()),
        true => Err(Error::Refused(
            "a `ferrite wal drain` of it was interrupted: end the programs that have it open, and run that again"
                .into(),
        )
        .into()),
    }
}

/// Finishes or undoes an interrupted drain. The connection has an exclusive lock on the file.
fn finish_or_undo(file: *mut File, log: &DatabaseLog, mark: DatabaseMark) -> Outcome<()> {
    let is_own = Below(file).header()?.is_some_and(|header| !header.is_marked());
    if !is_own && !log.is_beside() {
        return Ok(log.set_mark(Some(DatabaseMark { is_given: false, ..mark }))?);
    }
    // The process that named the copies may have been killed before the names were durable.
    persist_folder(log.path())?;
    take_back(file, log, mark)
}

/// Restores the header's own versions, and empties the log. The connection has an exclusive lock on the file.
fn take_back(file: *mut File, log: &DatabaseLog, mark: DatabaseMark) -> Outcome<()> {
    log.set_mark(Some(DatabaseMark { is_on_disk: false, ..mark }))?;
    log.unmark_file(&Below(file), mark)?;
    Ok(log.empty()?)
}

/// Calls `work` with the mark in the pool, if no other connection has the file open: only then is the mark stable. The
/// connection has no lock.
fn alone(file: *mut File, work: impl FnOnce(&DatabaseLog, DatabaseMark) -> Outcome<()>) -> Outcome<()> {
    let log = &owned(file).0.database.log;
    let mut done = Ok(());
    if pass!(file, lock, LOCK_SHARED) == abi::OK && pass!(file, lock, LOCK_EXCLUSIVE) == abi::OK {
        done = log.mark().map_err(Failure::from).and_then(|mark| mark.map_or(Ok(()), |mark| work(log, mark)));
    }
    pass!(file, unlock, LOCK_NONE);
    done
}

/// Returns an error if the file is marked for another pool and this pool has no mark.
pub fn ensure_here(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    match main.database.log.mark()? {
        Some(_) => Ok(()),
        None => main.database.log.verify_open(&Below(file)).map(drop),
    }
}
