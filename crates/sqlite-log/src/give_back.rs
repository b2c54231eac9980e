//! Giving a database's log back: to files beside it, so that any program can open it again.
//!
//! A step at a time (WF4): clear what lies beside, copy, move the tie on, say that it is given, name the copies, unmark the
//! header, empty the log.

use std::fs::{self, File as OsFile};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_pool::AtomicFile;

use super::{DatabaseLog, DatabasePool, File, Identity, Mark, PlainFile, lock};
use crate::{Error, Result};

/// Bytes copied in one step.
const STEP_BYTES: usize = 1 << 20;

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// So many bytes are copied; there is more to do.
    Copied(u64),
    /// A step without bytes is done.
    Stepped,
    /// The database is given back.
    Done,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
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

/// The giving back of one database. Dropped before its end it can be begun again, and leaves no part of a file.
pub struct GiveBack {
    log: DatabaseLog,
    database: OsFile,
    path: String,
    copies: [Option<AtomicFile>; 2],
    next: Next,
}

impl GiveBack {
    /// Begins with the database at `path`, whose log is in the pool `log_pool`.
    ///
    /// # Errors
    /// [`Error::Refused`] where somebody uses it, it is not the file whose log that is, or its log is not there though
    /// it has one; [`Error::Target`] where the file cannot be opened.
    pub fn begin(log_pool: &Arc<DatabasePool>, path: &str) -> Result<Self> {
        let opening = |error| Error::target(format!("opening {path}"), error);
        let database = OsFile::options().read(true).write(true).open(path).map_err(opening)?;
        let log = DatabaseLog::open(log_pool, path, Identity::of_file(&plain(&database, path))?, true)?;
        exclude(&database, path)?;
        let mut work = Self { log, database, path: path.into(), copies: [None, None], next: Next::Look };
        work.look()?;
        Ok(work)
    }

    /// Does the next step.
    ///
    /// # Errors
    /// [`Error::Target`] and [`Error::Undrained`] where a file beside the database, or its header, cannot be written;
    /// else as [`DatabaseLog`] says. Nothing is lost: the same step can be tried again.
    pub fn step(&mut self) -> Result<Progress> {
        match self.next {
            Next::Look => self.look(),
            Next::Clear => self.clear(),
            Next::Copy(number, at) => self.copy(number, at),
            Next::Advance => self.advance(),
            Next::Given => self.say_given(),
            Next::Name(number) => self.name(number),
            Next::Unmark => self.unmark(),
            Next::Empty => self.empty(),
            Next::Done => Ok(Progress::Done),
        }
    }

    /// Where to begin, or to go on (WF7, WF8).
    fn look(&mut self) -> Result<Progress> {
        let header = self.log.verify(&self.file())?;
        let is_own = header.is_some_and(|header| !header.is_marked());
        let (mark, is_live) = (self.log.mark()?, self.log.is_live()?);
        self.next = match mark {
            Some(mark) if mark.is_given && !is_own && self.log.is_beside() => Next::Unmark,
            Some(mark) if mark.is_given && !is_own => {
                self.log.set_mark(Some(Mark { is_given: false, ..mark }))?;
                Next::Clear
            }
            _ if is_own || (header.is_none() && !is_live) => Next::Empty,
            _ => Next::Clear,
        };
        Ok(Progress::Stepped)
    }

    /// Takes away what is left beside the database, which its log is not: by a log's name there is to be a copy or nothing
    /// (WF7).
    fn clear(&mut self) -> Result<Progress> {
        for file in File::ALL {
            let target = self.target(file);
            match fs::remove_file(&target) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(Error::target(format!("removing {}", target.display()), error));
                }
                _ => {}
            }
        }
        settle_folder(&self.path)?;
        self.next = Next::Copy(0, 0);
        Ok(Progress::Stepped)
    }

    fn copy(&mut self, number: usize, at: u64) -> Result<Progress> {
        let Some(file) = File::ALL.get(number).copied() else {
            self.next = Next::Advance;
            return Ok(Progress::Stepped);
        };
        let length = self.log.length(file)?.unwrap_or(0);
        if length == 0 {
            self.next = Next::Copy(number + 1, 0);
            return Ok(Progress::Stepped);
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
        self.next = if at < length { Next::Copy(number, at) } else { Next::Copy(number + 1, 0) };
        Ok(Progress::Copied(read as u64))
    }

    /// Moves file and log to a new generation before the copies admit programs that change the file (WF10).
    fn advance(&mut self) -> Result<Progress> {
        self.log.advance(&self.file())?;
        self.next = Next::Given;
        Ok(Progress::Stepped)
    }

    fn say_given(&mut self) -> Result<Progress> {
        let unmarked = Mark { write: 1, read: 1, is_on_disk: false, is_given: false };
        let mark = self.log.mark()?.unwrap_or(unmarked);
        self.log.set_mark(Some(Mark { is_given: true, ..mark }))?;
        self.next = Next::Name(0);
        Ok(Progress::Stepped)
    }

    /// Makes a copy durable, and then its name: from here on other programs may be let in (WF8).
    fn name(&mut self, number: usize) -> Result<Progress> {
        let Some(copy) = self.copies.get_mut(number) else {
            self.next = Next::Unmark;
            return Ok(Progress::Stepped);
        };
        if let Some(copy) = copy.take() {
            // Where that fails the copy may have its name or not.
            self.next = Next::Look;
            copy.finish().map_err(Error::Undrained)?;
        }
        self.next = Next::Name(number + 1);
        Ok(Progress::Stepped)
    }

    fn unmark(&mut self) -> Result<Progress> {
        let mark = self.log.mark()?.expect("it was set");
        // Who named the copies may have been killed before that was durable.
        settle_folder(&self.path)?;
        self.log.unmark_file(&self.file(), mark)?;
        self.next = Next::Empty;
        Ok(Progress::Stepped)
    }

    fn empty(&mut self) -> Result<Progress> {
        self.log.empty()?;
        self.next = Next::Done;
        Ok(Progress::Done)
    }

    fn target(&self, file: File) -> PathBuf {
        self.log.beside(file)
    }

    fn file(&self) -> PlainFile<'_> {
        plain(&self.database, &self.path)
    }
}

/// Makes the names durable that are beside the database at `path`.
///
/// # Errors
/// [`Error::Target`].
pub fn settle_folder(path: &str) -> Result<()> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    let settled = OsFile::open(folder).and_then(|folder| folder.sync_all());
    settled.map_err(|error| Error::target(format!("syncing {}", folder.display()), error))
}

/// Lets those use `copy` who may use `database`: its owner, where we may give files away, and whom its mode names.
fn whoever_may_use(database: &OsFile, copy: &OsFile) -> io::Result<()> {
    let found = database.metadata()?;
    match fchown(copy, Some(found.uid()), Some(found.gid())) {
        Err(error) if error.kind() != ErrorKind::PermissionDenied => return Err(error),
        _ => {}
    }
    copy.set_permissions(found.permissions())
}

/// Has `database`, the file at `path`, alone until it is closed.
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
