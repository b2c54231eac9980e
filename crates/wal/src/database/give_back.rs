//! Giving a database's log back: to files beside it, so that any program can open it again.
//!
//! A step at a time (WF4): copy, name the copy, say that it is whole, unmark the header, empty the log.

use std::fs::File as OsFile;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, fchown};
use std::path::PathBuf;
use std::sync::Arc;

use ferrite_pool::Partial;

use super::{DatabaseLog, ELSEWHERE, File, Identity, Mark, Station, lock};
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
    Copy(usize, u64),
    Name(usize),
    Given,
    Unmark,
    Empty,
    Done,
}

/// The giving back of one database. Dropped before its end it can be begun again, and leaves no part of a file.
pub struct GiveBack {
    log: DatabaseLog,
    database: OsFile,
    path: String,
    copy: Option<Partial>,
    next: Next,
}

impl GiveBack {
    /// Begins with the database at `path`, whose log is in the pool that `station` reaches.
    ///
    /// # Errors
    /// [`Error::Refused`] where somebody uses it, it is not the file whose log that is, or its log is not there though
    /// it has one; [`Error::Target`] where the file cannot be opened.
    pub fn begin(station: &Arc<Station>, path: &str) -> Result<Self> {
        let opening = |error| Error::target(format!("opening {path}"), error);
        let database = OsFile::options().read(true).write(true).open(path).map_err(opening)?;
        let log = DatabaseLog::open(station, path, Identity::of_file(&database).map_err(opening)?, true)?;
        exclude(&database, path)?;
        let next = match (log.mark()?, header_versions(&database).map_err(opening)?) {
            (Some(mark), Some([_, read])) if mark.is_given && read != Mark::FOREIGN => Next::Empty,
            (_, Some([_, read])) if read != Mark::FOREIGN && log.is_live()? => return Err(replaced(path)),
            (None, Some([_, Mark::FOREIGN])) => return Err(Error::Refused(format!("{path}: {ELSEWHERE}"))),
            _ => Next::Copy(0, 0),
        };
        Ok(Self { log, database, path: path.into(), copy: None, next })
    }

    /// Does the next step.
    ///
    /// # Errors
    /// [`Error::Target`] and [`Error::Undrained`] where a file beside the database, or its header, cannot be written;
    /// else as [`DatabaseLog`] says. Nothing is lost: the same step can be tried again.
    pub fn step(&mut self) -> Result<Progress> {
        match self.next {
            Next::Copy(number, at) => self.copy(number, at),
            Next::Name(number) => self.name(number),
            Next::Given => self.say_given(),
            Next::Unmark => self.unmark(),
            Next::Empty => self.empty(),
            Next::Done => Ok(Progress::Done),
        }
    }

    fn copy(&mut self, number: usize, at: u64) -> Result<Progress> {
        let Some(file) = File::ALL.get(number).copied() else {
            self.next = Next::Given;
            return Ok(Progress::Stepped);
        };
        let length = self.log.length(file)?.unwrap_or(0);
        if length == 0 {
            self.next = Next::Copy(number + 1, 0);
            return Ok(Progress::Stepped);
        }
        let target = self.target(file);
        let writing = |error| Error::target(format!("writing {}", target.display()), error);
        let copy = match &mut self.copy {
            Some(copy) => copy,
            none => none.insert(Partial::begin(&target, 0o600).map_err(Error::Undrained)?),
        };
        if at == 0 {
            whoever_may_use(&self.database, copy.file()).map_err(writing)?;
        }
        let mut bytes = vec![0; STEP_BYTES.min((length - at) as usize)];
        let read = self.log.read(file, at, &mut bytes)?;
        copy.file().write_all_at(&bytes[..read], at).map_err(writing)?;
        let at = at + read as u64;
        self.next = if at < length { Next::Copy(number, at) } else { Next::Name(number) };
        Ok(Progress::Copied(read as u64))
    }

    /// Makes the copy durable, and then its name.
    fn name(&mut self, number: usize) -> Result<Progress> {
        // Where that fails it is copied again.
        self.next = Next::Copy(number, 0);
        self.copy.take().expect("it was copied").finish().map_err(Error::Undrained)?;
        self.next = Next::Copy(number + 1, 0);
        Ok(Progress::Stepped)
    }

    fn say_given(&mut self) -> Result<Progress> {
        match self.log.mark()? {
            Some(mark) => {
                self.log.set_mark(Some(Mark { is_given: true, ..mark }))?;
                self.next = Next::Unmark;
            }
            None => self.next = Next::Empty,
        }
        Ok(Progress::Stepped)
    }

    fn unmark(&mut self) -> Result<Progress> {
        let mark = self.log.mark()?.expect("it was set");
        let written = match header_versions(&self.database) {
            Ok(Some(_)) => self.database.write_all_at(&[mark.write, mark.read], Mark::AT),
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        let settled = written.and_then(|()| self.database.sync_all());
        settled.map_err(|error| Error::target(format!("writing {}", self.path), error))?;
        self.next = Next::Empty;
        Ok(Progress::Stepped)
    }

    fn empty(&mut self) -> Result<Progress> {
        File::ALL.iter().try_for_each(|file| self.log.delete(*file))?;
        self.log.settle()?;
        self.log.set_mark(None)?;
        self.next = Next::Done;
        Ok(Progress::Done)
    }

    fn target(&self, file: File) -> PathBuf {
        format!("{}{}", self.path, file.suffix()).into()
    }
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

fn replaced(path: &str) -> Error {
    Error::Refused(format!(
        "{path} was replaced while its log was in the pool: put the file back that it belongs to, or give the log up \
         with `ferrite wal forget`"
    ))
}

/// The versions in the header of a database file, where it has one.
pub(super) fn header_versions(database: &OsFile) -> io::Result<Option<[u8; 2]>> {
    let mut head = [0; Mark::END as usize];
    match database.read_exact_at(&mut head, 0) {
        Ok(()) => Ok(Mark::of_header(&head)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}
