//! The two versions in the header on disk, and the pool's word for them. Every `file` is one that SQLite has open.

use std::ffi::c_int;
use std::time::Duration;

use ferrite_wal::Error;
use ferrite_wal::database::{DatabaseLog, Mark, settle_folder};

use super::{END, ensure_ours, owned};
use crate::abi::{self, File, LOCK_EXCLUSIVE, LOCK_NONE, LOCK_SHARED};
use crate::main_file::below;
use crate::told::{Failure, Outcome, elsewhere};

/// How often a database that others have open is tried, and the pause between.
const TRIES: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// The versions on disk; `None` where there is no header.
pub fn versions(file: *mut File) -> Outcome<Option<[u8; 2]>> {
    match ensure_ours(file) {
        abi::OK => versions_below(file),
        code => Err(Failure::Below { doing: "reading", code }),
    }
}

/// The same of a file of which only the part below is open.
pub fn versions_below(file: *mut File) -> Outcome<Option<[u8; 2]>> {
    let mut head = [0_u8; END as usize];
    match pass_on!(file, read, head.as_mut_ptr().cast(), END as c_int, 0) {
        abi::OK => Ok(Mark::of_header(&head)),
        abi::IOERR_SHORT_READ => Ok(None),
        code => Err(Failure::Below { doing: "reading", code }),
    }
}

fn put_versions(file: *mut File, versions: [u8; 2]) -> Outcome<()> {
    let written = pass!(file, write, versions.as_ptr().cast(), 2, Mark::AT as i64);
    let code = if written == abi::OK { pass!(file, settle, abi::SETTLE_NORMAL) } else { written };
    if code == abi::OK { Ok(()) } else { Err(Failure::Below { doing: "writing", code }) }
}

/// Marks the header (SV1), unless it is. The connection has a lock that keeps others from unmarking.
pub fn ensure_marked(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    let log = &main.database.log;
    if main.is_checked.get() && log.mark()?.is_some_and(|mark| mark.is_on_disk) {
        return Ok(());
    }
    let (on_disk, noted) = (versions(file)?, log.mark()?);
    let mark = match (on_disk, noted) {
        (Some([_, Mark::FOREIGN]), None) => return Err(elsewhere().into()),
        (Some([_, Mark::FOREIGN]), Some(mark)) => mark,
        (Some([write, read]), _) => Mark { write, read, is_on_disk: false, is_given: false },
        (None, Some(mark)) => mark,
        (None, None) => Mark { write: 1, read: 1, is_on_disk: false, is_given: false },
    };
    if !mark.is_on_disk || on_disk != Some([Mark::FOREIGN; 2]) {
        log.set_mark(Some(Mark { is_on_disk: false, ..mark }))?;
        if on_disk.is_some() {
            put_versions(file, [Mark::FOREIGN; 2])?;
        }
        log.set_mark(Some(Mark { is_on_disk: true, ..mark }))?;
    }
    main.is_checked.set(true);
    Ok(())
}

/// Gives the header its versions back, if nobody else has the file open and nothing is in the log (SV3). The
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

/// Finishes or undoes a giving back that was interrupted (WF7, WF8). The connection has no lock.
pub fn settle_given(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    let log = &main.database.log;
    let is_given = || Ok::<_, Error>(log.mark()?.is_some_and(|mark| mark.is_given));
    // Others that open the database do the same.
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

/// The connection has the file alone.
fn finish_or_undo(file: *mut File, log: &DatabaseLog, mark: Mark) -> Outcome<()> {
    let is_own = versions(file)?.is_some_and(|[_, read]| read != Mark::FOREIGN);
    if !is_own && !log.is_beside() {
        return Ok(log.set_mark(Some(Mark { is_given: false, ..mark }))?);
    }
    // Who named the copies may have been killed before that was durable.
    settle_folder(log.path())?;
    take_back(file, log, mark)
}

/// Gives the header its versions back, and empties the log. The connection has the file alone.
fn take_back(file: *mut File, log: &DatabaseLog, mark: Mark) -> Outcome<()> {
    log.set_mark(Some(Mark { is_on_disk: false, ..mark }))?;
    if versions(file)? == Some([Mark::FOREIGN; 2]) {
        put_versions(file, [mark.write, mark.read])?;
    }
    Ok(log.empty()?)
}

/// Does `work` with what is noted, if nobody else has the file open: only then does nobody change it. The
/// connection has no lock.
fn alone(file: *mut File, work: impl FnOnce(&DatabaseLog, Mark) -> Outcome<()>) -> Outcome<()> {
    let log = &owned(file).0.database.log;
    let mut done = Ok(());
    if pass!(file, lock, LOCK_SHARED) == abi::OK && pass!(file, lock, LOCK_EXCLUSIVE) == abi::OK {
        done = log.mark().map_err(Failure::from).and_then(|mark| mark.map_or(Ok(()), |mark| work(log, mark)));
    }
    pass!(file, unlock, LOCK_NONE);
    done
}

/// Refuses what is marked for another pool, as long as this pool knows of no mark.
pub fn ensure_here(file: *mut File) -> Outcome<()> {
    let (main, _) = owned(file);
    if main.database.log.mark()?.is_some() {
        return Ok(());
    }
    match versions(file)? {
        // Another process may have marked it in between.
        Some([_, Mark::FOREIGN]) if main.database.log.mark()?.is_none() => Err(elsewhere().into()),
        _ => Ok(()),
    }
}
