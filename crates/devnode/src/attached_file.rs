//! A disk that is a file until it is detached or dropped.
//!
//! - AH1. This process opens no file of its own: a child sizes, flushes and unmounts it (AT2). So a server that is
//!   killed at any point dies at once, and the next server of the name clears what it left (AT4).
//! - AH2. A file that a program has open or mapped is not detached; the error names the programs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ferrite_disk::Disk;
use ferrite_fuse::{FUSE, MountSpec, RootKind, may_mount, widen_backlog};
use ferrite_memory::planted;

use super::cached_file::{CachedFile, FileState};
use super::child;
use super::child_fd::{ChildFd, set_size, unmount_unused};
use super::file_point::{FilePoint, is_used_by};
use super::fuse::{FuseServer, lock_memory};
use super::holders::{command, processes};
use super::runtime_dir::{DirLock, RuntimeDir};
use super::{AttachedDisk, Error, PATIENCE, Result, WRITING, stale};

/// The user of a file when the kernel reports that it is busy and no process shows it.
const UNSEEN: &str = "the kernel or a program that is not seen here (a loop device, or another container)";

/// The user and group that a file belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileOwner {
    /// The number of the user.
    pub uid: u32,
    /// The number of the group.
    pub gid: u32,
}

/// The options of a disk as a file.
#[derive(Clone, Debug)]
pub struct FileOptions {
    /// The disk's name, unique in `directory`: a file name without control characters or a leading dot.
    pub name: String,
    /// A private directory, as of [`super::Options::directory`].
    pub directory: PathBuf,
    /// The path of the file, absolute; `None`: one in `directory`.
    pub path: Option<PathBuf>,
    /// The user that may open the file beside root.
    pub owner: FileOwner,
    /// Threads that serve the file.
    pub threads: usize,
}

/// Checks that this process can show disks as files.
///
/// # Errors
/// Returns [`Error::Missing`] with the missing right or device.
pub fn check_files() -> Result<()> {
    let missing = if may_mount() { FUSE.missing() } else { Some("only root may mount a file".into()) };
    missing.map_or(Ok(()), |missing| Err(Error::Missing(missing)))
}

/// A disk that is a file until it is detached or dropped.
#[derive(Debug)]
pub struct AttachedFile {
    disk: AttachedDisk,
    place: RuntimeDir,
    point: FilePoint,
    state: Arc<FileState>,
    /// The number of the file system, if the kernel lists the mount.
    device: Option<u64>,
    notes: Vec<String>,
    server: Option<FuseServer>,
    lock: Option<DirLock>,
}

impl AttachedFile {
    /// Makes `disk` a file that programs map. Clears first the leftovers of a killed server of the same name. Until the
    /// file is detached, the caller uses the disk in no other way (AF5).
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if the machine mounts no files, [`Error::Held`] if another server has the name,
    /// [`Error::FileTaken`] if the path is in use, and [`Error::Name`] for an invalid name. On an error nothing stays
    /// behind.
    pub fn new(disk: Arc<dyn Disk>, options: &FileOptions) -> Result<Self> {
        check_files()?;
        let place = RuntimeDir::make(&options.directory, &options.name)?;
        let lock = place.lock()?;
        let mut notes = Vec::new();
        stale::clear(&place, &lock, &mut notes)?;
        let path = options.path.clone().unwrap_or_else(|| place.file());
        let opening = Error::io(format!("opening the folder of {}", path.display()));
        let point = match FilePoint::open(&path) {
            Ok(point) => point,
            Err(error) => {
                let _ = lock.remove();
                return Err(opening(error));
            }
        };
        let state = FileState::new(options.owner);
        let disk = AttachedDisk(disk);
        let mut file = Self { disk, place, point, state, device: None, notes, server: None, lock: Some(lock) };
        // Dropping the incomplete value undoes the steps before a failure.
        file.start(options.threads.max(2))?;
        Ok(file)
    }

    fn start(&mut self, threads: usize) -> Result<()> {
        if let Some(lock) = &self.lock {
            lock.note([self.path()].into_iter()).map_err(Error::io("writing the lock file"))?;
        }
        if let Err(error) = lock_memory() {
            self.notes.push(format!("memory is not locked ({error}): swapping may stall the file"));
        }
        let file = self.point.make()?;
        let source = self.place.root().to_string_lossy().into_owned();
        let rest = ",default_permissions,allow_other";
        let how = MountSpec { source: &source, flags: 0, rest, root: RootKind::File };
        let export = CachedFile::new(Arc::clone(&self.disk.0), Arc::clone(&self.state));
        let name = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file)));
        let mounting = || Error::io(format!("mounting on {}", self.point.path.display()));
        let server = FuseServer::start(export, &name, &how, threads).map_err(mounting())?;
        self.server = Some(server);
        self.device = FilePoint::mounted(&self.place).map_err(mounting())?;
        // The kernel makes the root inode before it may hold writes back, and trusts its own size of it from then on.
        let (path, bytes) = (self.point.exact_c().map_err(mounting())?, self.bytes());
        let Some(lock) = &self.lock else { return Ok(()) };
        child::run(lock, &|| set_size(&path, bytes)).map_err(mounting())?;
        if let Err(error) = self.device.map_or(Ok(()), widen_backlog) {
            self.notes.push(format!("the kernel holds little back for the file ({error}): stores may wait for it"));
        }
        Ok(())
    }

    /// Returns the path of the file, without links.
    pub fn path(&self) -> &Path {
        &self.point.path
    }

    /// Returns the bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.disk.0.geometry().size
    }

    /// Returns notes for people: the leftovers that were cleared before attaching, and the defects of the file.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns true until the file is unmounted everywhere: another program may unmount it.
    pub fn is_there(&self) -> bool {
        self.server.as_ref().is_some_and(|server| !server.has_ended())
    }

    /// Returns the programs that have the file open or mapped, each in words.
    pub fn users(&self) -> Vec<String> {
        let Some(device) = self.device else { return Vec::new() };
        let users = processes().filter(|pid| is_used_by(pid, self.path(), device));
        users.map(|pid| format!("process {pid} ({})", command(&pid))).collect()
    }

    fn busy(&self, mut who: Vec<String>) -> Error {
        if who.is_empty() {
            let writer = self.state.writer();
            who.push(writer.map_or_else(|| UNSEEN.into(), |pid| format!("process {pid}, or one that it made")));
        }
        Error::Busy { device: self.path().into(), who }
    }

    /// Unmounts the file if no program uses it: the first step of [`AttachedFile::detach`], which may wait for other
    /// programs.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] with the users of the file, which then stays attached.
    pub fn release(&self) -> Result<()> {
        let Some(lock) = self.lock.as_ref().filter(|_| self.is_there()) else { return Ok(()) };
        let users = self.users();
        if planted!("devnode: a file in use is detached") {
            let _ = ferrite_fuse::unmount(&self.point.exact());
        } else if !users.is_empty() {
            return Err(self.busy(users));
        }
        let unmounting = || Error::io(format!("unmounting {}", self.path().display()));
        if FilePoint::mounted(&self.place).map_err(unmounting())?.is_some() {
            let path = self.point.exact_c().map_err(unmounting())?;
            match child::run(lock, &|| unmount_unused(&path)) {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) => return Err(self.busy(self.users())),
                other => other.map_err(unmounting())?,
            };
        }
        if self.ends_within(PATIENCE) { Ok(()) } else { Err(self.busy(self.users())) }
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while self.is_there() && Instant::now() < until {
            sleep(Duration::from_millis(2));
        }
        !self.is_there()
    }

    /// Detaches the file and flushes the disk. A second call does nothing.
    ///
    /// # Errors
    /// Returns [`Error::Busy`] with the users of the file, which then stays attached. Returns [`Error::Lost`] or
    /// [`Error::Flush`] if the file is gone but not all bytes are durable.
    pub fn detach(&mut self) -> Result<()> {
        self.release()?;
        self.take_down()
    }

    /// Detaches the file even while programs use it, and flushes the disk: what they have stored so far is written
    /// first, and their next accesses fail. A second call does nothing; dropping does the same.
    ///
    /// # Errors
    /// Returns [`Error::Io`] or [`Error::Lost`] if bytes that programs stored may be lost, and [`Error::Flush`] if the
    /// disk could not be flushed. The file is gone in each case.
    pub fn end(&mut self) -> Result<()> {
        match self.release() {
            Ok(()) => self.take_down(),
            Err(_) => self.abandon(),
        }
    }

    fn abandon(&mut self) -> Result<()> {
        let writing =
            || Error::io(format!("having the kernel write what programs stored to {}", self.path().display()));
        let (exact, mut written) = (self.point.exact(), Ok(()));
        if let Some(lock) = &self.lock
            && let Ok(Some(_)) = FilePoint::mounted(&self.place)
        {
            let path = self.point.exact_c().map_err(writing())?;
            let flush = || ChildFd::new(&path, libc::O_RDONLY)?.flush();
            written = child::run_for(lock, Some(WRITING), &flush).map(drop).map_err(writing());
            let _ = ferrite_fuse::unmount(&exact);
        }
        self.ends_within(PATIENCE);
        let ended = self.take_down();
        written.and(ended)
    }

    /// Removes all resources except the mount.
    fn take_down(&mut self) -> Result<()> {
        let Some(lock) = self.lock.take() else { return Ok(()) };
        // A thread that still serves a copy of the mount in another namespace ends with this process.
        let server = self.server.take().filter(FuseServer::has_ended);
        let ended = server.map_or(Ok(()), FuseServer::join).map_err(Error::io("ending the threads of the file"));
        if let Ok(Some(_)) = FilePoint::mounted(&self.place) {
            // The mount has no server: it could not start, or has panicked.
            let _ = ferrite_fuse::unmount(&self.point.exact());
        }
        self.point.remove();
        let removed = lock.remove().map_err(Error::io(format!("removing the directory of {}", self.place.name())));
        let flushed = self.disk.0.flush().map_err(Error::Flush);
        let lost = self.state.lost().map_or(Ok(()), |(bytes, why)| Err(Error::Lost { bytes, why }));
        lost.and(flushed).and(ended).and(removed)
    }
}

impl Drop for AttachedFile {
    fn drop(&mut self) {
        let _ = self.end();
    }
}
