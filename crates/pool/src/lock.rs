//! The lock that makes a process the owner of a pool.

use std::fs::{File, Metadata, OpenOptions, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ferrite_memory::{Error as MediumError, MapOptions, Mapped, own_storage, planted};

use crate::Superblock;

pub use error::LockError;
pub use fork::{Origin, ParentOnlyFd};
pub use holder::{Holder, LockedFile};
pub use trust::{TRUST_OWNER, TRUST_WRITABLE, Trust, ensure_trusted};

mod error;
mod fork;
mod holder;
#[cfg(test)]
mod tests;
mod trust;

/// Result of claiming a pool.
type Result<T> = std::result::Result<T, LockError>;

/// How often a pool may be replaced under our hands before we give up on it.
const REPLACED_MAX: u32 = 100;

/// The result of claiming a pool.
#[derive(Debug)]
pub enum Claim {
    /// This process has the pool until the lock is dropped.
    Ours(Lock),
    /// Another process has the pool.
    Held(Holder),
}

/// The exclusive lock on a pool's file. Dropping it (and every listening socket made from it) frees the pool; so does
/// the end of the process, however it comes (O1): a child that it forks does not have the descriptor.
#[derive(Clone, Debug)]
pub struct Lock {
    held: Arc<Held>,
}

#[derive(Debug)]
struct Held {
    _kept: ParentOnlyFd,
    file: File,
    path: PathBuf,
}

impl Drop for Held {
    fn drop(&mut self) {
        planted!("pool: lock only closed" => return);
        // Closing is not enough: a child that another thread has just forked shares the lock until it has called exec.
        let _ = self.file.unlock();
    }
}

/// Claims the pool at `path` for reading and writing. Never waits.
///
/// # Errors
/// [`LockError::Io`] if the path cannot be opened for reading and writing, [`LockError::NotAPool`] if it names something
/// that cannot hold a pool, [`LockError::Untrusted`] if another user owns it or may write to it (O8).
pub fn claim(path: &Path) -> Result<Claim> {
    let doing = |what: &str| format!("{what} {}", path.display());
    let mut options = OpenOptions::new();
    // Without O_NONBLOCK the open of a FIFO or of a leased file would wait for another process.
    options.read(true).write(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
    for _ in 0..REPLACED_MAX {
        let path = path.canonicalize().map_err(|e| LockError::io(doing("opening"), e))?;
        let file = options.open(&path).map_err(|e| LockError::io(doing("opening"), with_advice(e)))?;
        let found = file.metadata().map_err(|e| LockError::io(doing("looking at"), e))?;
        let _kept = ParentOnlyFd::new(file.as_fd());
        if !may_hold_a_pool(&found) {
            return Err(LockError::NotAPool(path));
        }
        ensure_trusted(&path, &found).map_err(LockError::Untrusted)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Claim::Held(Holder::of(&found))),
            Err(TryLockError::Error(e)) => return Err(LockError::io(doing("locking"), e)),
        }
        // Between open and lock the file may have been replaced (a restore renames one into place): a lock on the
        // old one would leave two owners of one path.
        if names(&path, &found) {
            return Ok(Claim::Ours(Lock { held: Arc::new(Held { _kept, file, path }) }));
        }
    }
    Err(LockError::io(doing("locking"), io::Error::other("it is replaced all the time: find out by whom")))
}

/// Adds the way out to the error about a file system that is read-only.
fn with_advice(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem => io::Error::other(format!(
            "{error}: a pool is recovered when it is opened, also to be looked at: copy it to where it can be written"
        )),
        _ => error,
    }
}

fn may_hold_a_pool(found: &Metadata) -> bool {
    let kind = found.file_type();
    kind.is_file() || kind.is_char_device() || kind.is_block_device()
}

fn names(path: &Path, opened: &Metadata) -> bool {
    path.metadata().is_ok_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino()))
}

impl Lock {
    /// The locked file.
    pub fn file(&self) -> &File {
        &self.held.file
    }

    /// Maps the file for its owner. What copies share with it becomes its own first: to store over it will need no space.
    ///
    /// # Errors
    /// As [`Mapped::map`]; [`MediumError::NoSpace`] if the host has no space for blocks that copies share.
    pub fn map(&self, options: &MapOptions) -> ferrite_memory::Result<Mapped> {
        let file = self.reopen()?;
        own_storage(&file, &options.name)?;
        Mapped::map(file, options)
    }

    /// Opens the file again. A mapping of that does not keep the lock, nor does a child of fork that has the mapping.
    fn reopen(&self) -> ferrite_memory::Result<File> {
        let through = format!("/proc/self/fd/{}", self.held.file.as_raw_fd());
        let reopened = OpenOptions::new().read(true).write(true).open(through);
        reopened.map_err(|e| MediumError::io(format!("opening {} again", self.held.path.display()), e))
    }

    /// Refuses a file that is too short for a pool: it may not have a page to map.
    ///
    /// # Errors
    /// [`crate::Error::NotAPool`]; [`crate::Error::Medium`] if the file cannot be inspected.
    pub fn ensure_room(&self) -> crate::Result<()> {
        let found = self.file().metadata();
        let found = found.map_err(|e| MediumError::io(format!("looking at {}", self.path().display()), e))?;
        if found.is_file() { Superblock::ensure_room(found.len()) } else { Ok(()) }
    }

    /// Returns the number of owners of the lock, this one included: its clones, and a listening socket that is not stopped.
    pub fn keepers(&self) -> usize {
        Arc::strong_count(&self.held)
    }

    /// Its path, with symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.held.path
    }
}
