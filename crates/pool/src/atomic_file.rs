//! Files that Ferrite writes for a user. A file gets its name only when it is whole.
//!
//! ```text
//!   folder (opened, each link on the way checked)
//!     |- NAME              what was there, until the new file is whole
//!     |- (no name)         the part, O_TMPFILE: a killed writer leaves nothing
//!     '- NAME.partial      the part where the file system has no O_TMPFILE, and for the moment of replacing NAME
//! ```
//!
//! Other users may be able to write to the folder. So every part is new (O_TMPFILE or O_EXCL), has mode 0600 and is
//! locked by its writer. An existing file with a part's name is never opened, except a leftover of the same user: a new
//! writer removes it if no other writer holds its lock. A pool at NAME is never replaced.

mod file_place;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ferrite_memory::Error as MediumError;
use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use crate::layout::{PAGE, SUPERBLOCKS};
use crate::tie::{RECORD_BYTES, TieRecord, TieRole};
use crate::{Error, Result, Superblock, show_uuid};

use file_place::{FilePlace, own_user};

/// The kernel's limit of symbolic links on one path.
const LINKS_MAX: usize = 40;
/// Names that a writer tries for a part.
const PARTS_MAX: u32 = 64;
/// Permission bits of a part. The umask may clear some of them.
const PRIVATE: Mode = Mode::RUSR.union(Mode::WUSR);

/// A file being written. Dropping this before [`AtomicFile::finish`] discards the file.
#[derive(Debug)]
pub struct AtomicFile {
    file: File,
    place: FilePlace,
    /// The part's name, if it has one.
    named: Option<OsString>,
}

/// The destination of an output.
#[derive(Debug)]
pub enum OutputFile {
    /// A plain file, which takes its name at the end.
    Whole(AtomicFile),
    /// A pipe, a terminal or a device, which keeps its place.
    Stream(File),
}

/// A new part, and its name, if it has one.
type FilePart = (File, Option<OsString>);

impl OutputFile {
    /// Begins to write to `path`: a plain file, pipe or device.
    ///
    /// # Errors
    /// As [`AtomicFile::begin`]; also [`Error::Untrusted`] for another user's pipe or device in a folder that others may
    /// write to.
    pub fn begin(path: &Path) -> Result<Self> {
        let place = FilePlace::find(path)?;
        match place.look()? {
            Some(there) if !is_file(&there) && !is_folder(&there) => Ok(Self::Stream(place.open_stream(&there)?)),
            there => Ok(Self::Whole(AtomicFile::at(place, there, FilePlace::make)?)),
        }
    }

    /// Returns the file to write to.
    pub fn file(&mut self) -> &mut File {
        match self {
            Self::Whole(partial) => partial.file(),
            Self::Stream(stream) => stream,
        }
    }

    /// Gives a plain file its name, durable on return. Does nothing to a stream.
    ///
    /// # Errors
    /// As [`AtomicFile::finish`].
    pub fn finish(self) -> Result<()> {
        match self {
            Self::Whole(partial) => partial.finish(),
            Self::Stream(_) => Ok(()),
        }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl AtomicFile {
    /// Begins to write a plain file at `path`. A symbolic link at `path` stays and is followed, unless another user may
    /// have put it there. Only this user can open the new file, unless it replaces one of this user's files: then it
    /// keeps that file's mode.
    ///
    /// # Errors
    /// [`Error::Limit`] if `path` does not name a plain file, [`Error::Occupied`] if it names a pool,
    /// [`Error::Untrusted`] for a link that another user may have made, [`Error::Busy`] if every name for a part is
    /// used. This never waits.
    pub fn begin(path: &Path) -> Result<Self> {
        let place = FilePlace::find(path)?;
        let there = place.look()?;
        Self::at(place, there, FilePlace::make)
    }

    fn at(place: FilePlace, there: Option<Stat>, make: impl FnOnce(&FilePlace) -> Result<FilePart>) -> Result<Self> {
        if there.as_ref().is_some_and(|there| !is_file(there)) {
            let path = place.shown().display();
            return Err(Error::Limit(format!(
                "{path} is not a plain file, and an atomic write would replace it: name a file"
            )));
        }
        place.ensure_no_pool()?;
        let (file, named) = make(&place)?;
        let partial = Self { file, place, named };
        if let Some(there) = there.filter(|there| there.st_uid == own_user()) {
            let kept = Mode::from_raw_mode(there.st_mode) & Mode::from_raw_mode(0o777);
            rustix::fs::fchmod(&partial.file, kept)
                .map_err(|error| partial.place.error("giving its mode to", error))?;
        }
        Ok(partial)
    }

    /// Returns the file to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name. Content and name are durable on return.
    ///
    /// # Errors
    /// [`Error::Occupied`] if a pool was made there since [`AtomicFile::begin`], [`Error::Medium`] if a system call fails.
    /// The previous file stays, unless only syncing the folder failed.
    pub fn finish(mut self) -> Result<()> {
        let io_error =
            |what, error: io::Error| MediumError::io(format!("{what} {}", self.place.shown().display()), error);
        self.file.sync_all().map_err(|error| io_error("syncing", error))?;
        // Another process may have made a pool there since.
        self.place.ensure_no_pool()?;
        if self.named.is_none() {
            let link = |name: &OsStr| self.place.link(&self.file, name);
            match link(self.place.name()) {
                Ok(()) => return self.place.persist_names(),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.place.error("naming", error)),
            }
            let (name, ()) = self.place.with_free_name(link)?;
            self.named = Some(name);
        }
        let part = self.named.as_deref().unwrap_or_default();
        self.place.rename(part).map_err(|error| self.place.error("renaming to", error))?;
        self.named = None;
        self.place.persist_names()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if let Some(name) = &self.named {
            // Still locked, so no other writer has removed it and made its own.
            let _ = self.place.remove(name);
        }
    }
}

fn is_file(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode).is_file()
}

fn is_folder(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode).is_dir()
}

/// Returns the path that the symbolic links at `path` lead to; no file has to exist there.
pub fn resolve_links(path: &Path) -> PathBuf {
    let next = |at: &PathBuf| Some(at.parent()?.join(fs::read_link(at).ok()?));
    std::iter::successors(Some(path.to_path_buf()), next).take(LINKS_MAX).last().unwrap_or_default()
}

/// Refuses to overwrite or replace the file at `path` if it holds a pool, sound or damaged, or cannot be read (BK2).
///
/// # Errors
/// [`Error::Occupied`]; [`Error::Medium`] if the file cannot be read.
pub fn ensure_no_pool(path: &Path) -> Result<()> {
    open_existing(path)?.map_or(Ok(()), |file| ensure_file_is_no_pool(&file, path))
}

/// Refuses to overwrite the file or block device at `path` if it is an SSD or a disk of a pool, or cannot be read. A
/// member has its tie's record at the start of the first page, of the second page or of both.
///
/// # Errors
/// [`Error::Occupied`]; [`Error::Medium`] if the file cannot be read.
pub fn ensure_no_member(path: &Path) -> Result<()> {
    let Some(file) = open_existing(path)? else { return Ok(()) };
    for at in [0, PAGE] {
        let mut bytes = [0; RECORD_BYTES];
        let record = read_start(&file, path, &mut bytes, at)?.then(|| TieRecord::decode(&bytes)).flatten();
        let (role, pool) = match record {
            Some(TieRecord { role: TieRole::Ssd, pool, .. }) => ("an SSD", pool),
            Some(TieRecord { role: TieRole::Disk, pool, .. }) => ("a disk", pool),
            _ => continue,
        };
        return Err(Error::Occupied(format!(
            "{} is {role} of a cache of pool {}, whose content would be lost: `ferrite cache remove` releases it; \
             if that pool is gone, overwrite the first 8 KiB",
            path.display(),
            show_uuid(&pool)
        )));
    }
    Ok(())
}

/// Opens the file or block device at `path` for reading. Returns `None` if there is none, or if the path names anything
/// else.
fn open_existing(path: &Path) -> Result<Option<File>> {
    let io_error = |what: &str, error| MediumError::io(format!("{what} {}", path.display()), error);
    let kind = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found.map_err(|error| io_error("looking at", error))?.file_type(),
    };
    // A pipe would wait for its writer; a DAX device can only be mapped.
    if !kind.is_file() && !kind.is_block_device() {
        return Ok(None);
    }
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    Ok(Some(file.map_err(|error| io_error("looking into", error))?))
}

/// Reads `bytes` at `at`. Returns false if the file ends before them.
fn read_start(file: &File, path: &Path, bytes: &mut [u8], at: u64) -> Result<bool> {
    match file.read_exact_at(bytes, at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(MediumError::io(format!("looking into {}", path.display()), error).into()),
        Ok(()) => Ok(true),
    }
}

/// Refuses a file that holds a pool.
fn ensure_file_is_no_pool(file: &File, path: &Path) -> Result<()> {
    for at in SUPERBLOCKS {
        let mut bytes = [0; 128];
        if read_start(file, path, &mut bytes, at)? && !matches!(Superblock::decode(&bytes), Err(Error::NotAPool(_))) {
            let what = "holds a pool, which would be lost: name another file";
            return Err(Error::Occupied(format!("{} {what}", path.display())));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
