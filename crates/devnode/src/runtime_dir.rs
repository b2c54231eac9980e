//! The runtime directory of an attached disk: its mount point, and the lock that shows that a server serves the disk.
//!
//! ```text
//! DIRECTORY/            0700, one for each pool
//!   NAME/
//!     lock              locked (flock) by the server for its whole life; holds "PID\nLINK\n", a second link in line 3
//!     mnt/              the FUSE mount point of a loop device
//!       disk            the file under the loop device
//!     file              the FUSE mount point of a disk as a file, unless the caller named another
//! ```
//!
//! - AP1. Only the process that holds the lock of a runtime directory touches its resources: mount, device, link,
//!   directory.
//! - AP2. A server acquires the lock before it creates any other resource and removes the lock file last. The children
//!   of a server hold the lock too. If the lock is free, a dead server left the content of the directory, and no
//!   process adds to it any more. A process number proves nothing: it serves messages and the choice of a waiting time.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use ferrite_memory::planted;

use super::{Error, Result};

/// Number of attempts to acquire a lock that a dying or starting server holds: two seconds in total.
const ATTEMPTS: u32 = 400;
const PAUSE: Duration = Duration::from_millis(5);

/// The paths of one attached disk.
#[derive(Clone, Debug)]
pub(super) struct RuntimeDir {
    root: PathBuf,
    name: String,
}

impl RuntimeDir {
    /// Creates, if needed, the runtime directory of `name` in `directory`. The paths are real ones, because the kernel
    /// shows the file of a loop device by its real path.
    pub fn make(directory: &Path, name: &str) -> Result<Self> {
        let fit = !name.is_empty() && !name.starts_with('.') && name.len() <= 255;
        if !fit || name.contains(|c: char| c == '/' || c.is_control()) {
            return Err(Error::Name(name.into()));
        }
        let make = || {
            DirBuilder::new().mode(0o700).recursive(true).create(directory)?;
            directory.canonicalize()
        };
        let directory = make().map_err(Error::io(format!("making {}", directory.display())))?;
        Ok(Self::at(&directory, name))
    }

    /// Returns the runtime directory of `name` in `directory`, a real path, whether or not the directory exists.
    pub fn at(directory: &Path, name: &str) -> Self {
        Self { root: directory.join(name), name: name.into() }
    }

    /// Returns the disk's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the root of the directory, which identifies its node.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the FUSE mount point.
    pub fn mount_point(&self) -> PathBuf {
        self.root.join("mnt")
    }

    /// Returns the file under the loop device. The server never accesses this file: it would wait for itself.
    pub fn backing(&self) -> PathBuf {
        self.root.join("mnt/disk")
    }

    /// Returns the path of the disk as a file, if the caller names none.
    pub fn file(&self) -> PathBuf {
        self.root.join("file")
    }

    /// Returns the root of the runtime directory whose [`RuntimeDir::backing`] is `file`, if `file` is a backing file.
    pub fn root_over(file: &Path) -> Option<PathBuf> {
        file.ends_with("mnt/disk").then(|| file.ancestors().nth(2).map(Path::to_owned)).flatten()
    }

    /// Acquires the lock and creates its file if needed. Waits for a server that is dead or has not written its number
    /// yet.
    ///
    /// # Errors
    /// Returns [`Error::Held`] if a server holds the lock.
    pub fn lock(&self) -> Result<DirLock> {
        let mut attempts = 0;
        loop {
            match self.open().map_err(Error::io(format!("locking {}", self.root.display())))? {
                None => {}
                Some(DirClaim::Ours(file)) => {
                    return Ok(DirLock { file, root: self.root.clone(), turn: Mutex::default() });
                }
                Some(DirClaim::Taken(holder)) if holder.lives() || attempts == ATTEMPTS => {
                    return Err(Error::Held { name: self.name.clone(), who: holder.to_string() });
                }
                Some(DirClaim::Taken(_)) => {
                    attempts += 1;
                    sleep(PAUSE);
                }
            }
        }
    }

    /// Makes one attempt. Returns `None` if a server that was just ending removed the file during the attempt.
    fn open(&self) -> io::Result<Option<DirClaim>> {
        DirBuilder::new().mode(0o700).recursive(true).create(&self.root)?;
        let path = self.root.join("lock");
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
        let mut file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(Some(DirClaim::Taken(DirHolder::noted(&mut file)))),
            Err(TryLockError::Error(error)) => Err(error),
            Ok(()) if file.metadata()?.nlink() == 0 => Ok(None),
            Ok(()) => Ok(Some(DirClaim::Ours(file))),
        }
    }
}

enum DirClaim {
    Ours(File),
    Taken(DirHolder),
}

/// The server that holds a lock, by its number if the file has one.
struct DirHolder(Option<String>);

impl DirHolder {
    fn noted(file: &mut File) -> Self {
        let mut text = String::new();
        let pid = file.read_to_string(&mut text).ok().and_then(|_| text.lines().next());
        Self(pid.filter(|pid| !pid.is_empty()).map(str::to_owned))
    }

    fn lives(&self) -> bool {
        let status = |pid| fs::read_to_string(format!("/proc/{pid}/status"));
        self.0.as_ref().is_some_and(|pid| status(pid).is_ok_and(|text| !text.contains("State:\tZ")))
    }
}

impl std::fmt::Display for DirHolder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(pid) if self.lives() => write!(f, "process {pid}"),
            Some(pid) => write!(f, "what is left of process {pid}, which is ending"),
            None => f.write_str("a process that is starting"),
        }
    }
}

/// Returns true if a live server holds the lock of the directory at `root`.
pub(super) fn is_held(root: &Path) -> bool {
    File::open(root.join("lock")).is_ok_and(|file| matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)))
}

/// Returns the links noted in the lock file of the directory at `root`.
pub(super) fn noted_links(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("lock")).unwrap_or_default();
    text.lines().skip(1).filter(|link| !link.is_empty()).map(PathBuf::from).collect()
}

/// A runtime directory that this process has locked (AP1). Dropping the value unlocks the directory; the next owner
/// clears the remaining content.
#[derive(Debug)]
pub(super) struct DirLock {
    file: File,
    root: PathBuf,
    turn: Mutex<()>,
}

impl AsRawFd for DirLock {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl DirLock {
    /// Writes this process's number and the links that lead to the node into the lock file.
    pub fn note<'a>(&self, links: impl Iterator<Item = &'a Path>) -> io::Result<()> {
        let links: String = links.map(|link| format!("{}\n", link.display())).collect();
        self.file.set_len(0)?;
        self.file.write_all_at(format!("{}\n{links}", std::process::id()).as_bytes(), 0)
    }

    /// Acquires the mutex that allows one child at a time to work for the directory.
    pub fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the links that the last server noted.
    pub fn noted_links(&self) -> Vec<PathBuf> {
        noted_links(&self.root)
    }

    /// Removes the empty directory, the lock last (AP2), then the directories above it that are empty now.
    pub fn remove(self) -> io::Result<()> {
        match fs::remove_dir(self.root.join("mnt")) {
            Err(_) if planted!("devnode: lock removed beside a mount") => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        fs::remove_file(self.root.join("lock"))?;
        // If a directory is not empty, the next server is running already, or another disk's directory lies beside.
        for directory in self.root.ancestors().take(2) {
            let _ = fs::remove_dir(directory);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
