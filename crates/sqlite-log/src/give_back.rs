//! Giving a log back: copying it to files beside its database, so that any program can open the database again.
//!
//! The steps (WF4): remove old files beside the database, copy, advance the tie, set GIVEN, name the copies, unmark the
//! header, empty the log.

use std::fs::{self, File as OsFile};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_pool::AtomicFile;

use super::{DatabaseIdentity, DatabaseLog, DatabaseMark, DatabasePool, JournalFile, PlainFile, lock};
use crate::{Error, Result};

/// Bytes copied in one step.
const STEP_BYTES: usize = 1 << 20;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveBackProgress {
    /// The step copied this number of bytes; more steps follow.
    Copied(u64),
    /// A step that copies no bytes is done; more steps follow.
    Stepped,
    /// The database is given back.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GiveBackStep {
    Look,
    Clear,
    Copy(usize, u64),
    Advance,
    Given,
    Name(usize),
    Unmark,
    Empty,
    Done,
}

/// The giving back of the log of one database. Dropped before its end, it leaves no part of a file, and can be begun again.
pub struct GiveBack {
    log: DatabaseLog,
    database: OsFile,
    path: String,
    copies: [Option<AtomicFile>; 2],
    next: GiveBackStep,
}

impl GiveBack {
    /// Begins with the database at `path`, whose log is in the pool `log_pool`.
    ///
    /// # Errors
    /// [`Error::Refused`] if a process uses the database, if the file is not the one that the log belongs to, or if its log
    /// should be in this pool and is not; [`Error::Target`] if the file cannot be opened.
    pub fn begin(log_pool: &Arc<DatabasePool>, path: &str) -> Result<Self> {
        let opening = |error| Error::target(format!("opening {path}"), error);
        let database = OsFile::options().read(true).write(true).open(path).map_err(opening)?;
        let log = DatabaseLog::open(log_pool, path, DatabaseIdentity::of_file(&plain(&database, path))?, true)?;
        exclude(&database, path)?;
        let mut work = Self { log, database, path: path.into(), copies: [None, None], next: GiveBackStep::Look };
        work.look()?;
        Ok(work)
    }

    /// Does the next step.
    ///
    /// # Errors
    /// [`Error::Target`] and [`Error::Undrained`] if a file beside the database, or its header, cannot be written; else as
    /// [`DatabaseLog`] says. Nothing is lost, and the same step can be tried again.
    pub fn step(&mut self) -> Result<GiveBackProgress> {
        match self.next {
            GiveBackStep::Look => self.look(),
            GiveBackStep::Clear => self.clear(),
            GiveBackStep::Copy(number, at) => self.copy(number, at),
            GiveBackStep::Advance => self.advance(),
            GiveBackStep::Given => self.say_given(),
            GiveBackStep::Name(number) => self.name(number),
            GiveBackStep::Unmark => self.unmark(),
            GiveBackStep::Empty => self.empty(),
            GiveBackStep::Done => Ok(GiveBackProgress::Done),
        }
    }

    /// Finds the step to begin or to continue with (WF7, WF8).
    fn look(&mut self) -> Result<GiveBackProgress> {
        let header = self.log.verify(&self.file())?;
        let is_own = header.is_some_and(|header| !header.is_marked());
        let (mark, is_live) = (self.log.mark()?, self.log.is_live()?);
        self.next = match mark {
            Some(mark) if mark.is_given && !is_own && self.log.is_beside() => GiveBackStep::Unmark,
            Some(mark) if mark.is_given && !is_own => {
                self.log.set_mark(Some(DatabaseMark { is_given: false, ..mark }))?;
                GiveBackStep::Clear
            }
            _ if is_own || (header.is_none() && !is_live) => GiveBackStep::Empty,
            _ => GiveBackStep::Clear,
        };
        Ok(GiveBackProgress::Stepped)
    }

    /// Removes files beside the database that are not its log: a log's name must name a copy of the log, or nothing (WF7).
    fn clear(&mut self) -> Result<GiveBackProgress> {
        for file in JournalFile::ALL {
            let target = self.target(file);
            match fs::remove_file(&target) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::target(format!("removing {}", target.display()), error));
                }
                _ => {}
            }
        }
        persist_folder(&self.path)?;
        self.next = GiveBackStep::Copy(0, 0);
        Ok(GiveBackProgress::Stepped)
    }

    fn copy(&mut self, number: usize, at: u64) -> Result<GiveBackProgress> {
        let Some(file) = JournalFile::ALL.get(number).copied() else {
            self.next = GiveBackStep::Advance;
            return Ok(GiveBackProgress::Stepped);
        };
        let length = self.log.length(file)?.unwrap_or(0);
        if length == 0 {
            self.next = GiveBackStep::Copy(number + 1, 0);
            return Ok(GiveBackProgress::Stepped);
        }
        let target = self.target(file);
        let writing = |error| Error::target(format!("writing {}", target.display()), error);
        let copy = match &mut self.copies[number] {
            Some(copy) => copy,
            none => none.insert(AtomicFile::begin(&target).map_err(Error::Undrained)?),
        };
        if at == 0 {
            whoever_may_use(&self.database, copy.file()).map_err(writing)?;
        }
        let mut bytes = vec![0; STEP_BYTES.min((length - at) as usize)];
        let read = self.log.read(file, at, &mut bytes)?;
        copy.file().write_all_at(&bytes[..read], at).map_err(writing)?;
        let at = at + read as u64;
        self.next = if at < length { GiveBackStep::Copy(number, at) } else { GiveBackStep::Copy(number + 1, 0) };
        Ok(GiveBackProgress::Copied(read as u64))
    }

    /// Moves file and log to a new generation, before other programs can open the copies and change the file (WF10).
    fn advance(&mut self) -> Result<GiveBackProgress> {
        self.log.advance(&self.file())?;
        self.next = GiveBackStep::Given;
        Ok(GiveBackProgress::Stepped)
    }

    fn say_given(&mut self) -> Result<GiveBackProgress> {
        let unmarked = DatabaseMark { write: 1, read: 1, is_on_disk: false, is_given: false };
        let mark = self.log.mark()?.unwrap_or(unmarked);
        self.log.set_mark(Some(DatabaseMark { is_given: true, ..mark }))?;
        self.next = GiveBackStep::Name(0);
        Ok(GiveBackProgress::Stepped)
    }

    /// Makes a copy durable, and then its name: from here on other programs may open the database (WF8).
    fn name(&mut self, number: usize) -> Result<GiveBackProgress> {
        let Some(copy) = self.copies.get_mut(number) else {
            self.next = GiveBackStep::Unmark;
            return Ok(GiveBackProgress::Stepped);
        };
        if let Some(copy) = copy.take() {
            // If that fails, the copy may have its name or not.
            self.next = GiveBackStep::Look;
            copy.finish().map_err(Error::Undrained)?;
        }
        self.next = GiveBackStep::Name(number + 1);
        Ok(GiveBackProgress::Stepped)
    }

    fn unmark(&mut self) -> Result<GiveBackProgress> {
        let mark = self.log.mark()?.expect("it was set");
        // The process that named the copies may have been killed before the names were durable.
        persist_folder(&self.path)?;
        self.log.unmark_file(&self.file(), mark)?;
        self.next = GiveBackStep::Empty;
        Ok(GiveBackProgress::Stepped)
    }

    fn empty(&mut self) -> Result<GiveBackProgress> {
        self.log.empty()?;
        self.next = GiveBackStep::Done;
        Ok(GiveBackProgress::Done)
    }

    fn target(&self, file: JournalFile) -> PathBuf {
        self.log.beside(file)
    }

    fn file(&self) -> PlainFile<'_> {
        plain(&self.database, &self.path)
    }
}

/// Makes the names of the files beside the database at `path` durable.
///
/// # Errors
/// [`Error::Target`] if the folder cannot be made durable.
pub fn persist_folder(path: &str) -> Result<()> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    let settled = OsFile::open(folder).and_then(|folder| folder.sync_all());
    settled.map_err(|error| Error::target(format!("syncing {}", folder.display()), error))
}

/// Gives `copy` the mode of `database`, and its user if this process may give files away.
fn whoever_may_use(database: &OsFile, copy: &OsFile) -> io::Result<()> {
    let found = database.metadata()?;
    match fchown(copy, Some(found.uid()), Some(found.gid())) {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
        _ => {}
    }
    copy.set_permissions(found.permissions())
}

/// Locks `database`, the file at `path`, for this process alone until the file is closed.
pub(super) fn exclude(database: &OsFile, path: &str) -> Result<()> {
    match lock::exclude_all(database) {
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::PermissionDenied) => {
            Err(Error::Refused(format!("{path} is in use: end the programs that have it open")))
        }
        other => other.map_err(|error| Error::target(format!("opening {path}"), error)),
    }
}

fn plain<'a>(file: &'a OsFile, path: &'a str) -> PlainFile<'a> {
    PlainFile { file, path, fail: |doing, error| Error::target(doing, error) }
}
