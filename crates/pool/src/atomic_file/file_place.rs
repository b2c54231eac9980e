//! The place of a file: an opened folder and a name in it.
//!
//! A walk opens the folder step by step, and checks each symbolic link on the way by the folder that holds it. It
//! follows a link if only this user and root may write to that folder. In other folders root follows no link, and
//! another user only links of its own and of root.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use ferrite_memory::Error as MediumError;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use super::{FilePart, LINKS_MAX, PARTS_MAX, PRIVATE, ensure_file_is_no_pool, is_file};
use crate::{Error, Result};

/// Mode bits of a folder or file that allow users other than the owner to write.
const OTHERS_WRITE: u32 = 0o022;

/// A name in an opened folder. It is not a symbolic link, except one of procfs to an open pipe or device.
#[derive(Debug)]
pub(super) struct FilePlace {
    folder: OwnedFd,
    name: OsString,
    /// The path that the caller gave, for messages.
    shown: PathBuf,
}

/// Returns the user that this process acts as.
pub(super) fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn io_error(what: &str, path: &Path, error: Errno) -> Error {
    MediumError::io(format!("{what} {}", path.display()), error.into()).into()
}

/// Returns true if users other than this one and root may write to `folder`.
fn is_open_to_others(folder: &Stat) -> bool {
    !is_trusted(folder.st_uid) || folder.st_mode & OTHERS_WRITE != 0
}

fn is_trusted(user: u32) -> bool {
    user == 0 || user == own_user()
}

fn is_link(there: &Stat) -> bool {
    FileType::from_raw_mode(there.st_mode).is_symlink()
}

fn open_folder(folder: &impl std::os::fd::AsFd, name: &OsStr, links: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(folder, name, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC | links, Mode::empty())
}

/// A walk along a path.
struct PathWalk<'a> {
    path: &'a Path,
    folder: OwnedFd,
    /// The components that are left.
    left: VecDeque<OsString>,
    links: usize,
}

impl<'a> PathWalk<'a> {
    fn along(path: &'a Path) -> Result<Self> {
        let folder = open_folder(&CWD, OsStr::new("."), OFlags::empty());
        let folder = folder.map_err(|error| io_error("opening the working folder for", path, error))?;
        let mut walk = Self { path, folder, left: VecDeque::new(), links: 0 };
        walk.go_by(path)?;
        Ok(walk)
    }

    /// Puts the components of `path` before those that are left.
    fn go_by(&mut self, path: &Path) -> Result<()> {
        for part in path.components().rev() {
            match part {
                Component::RootDir => {
                    let root = open_folder(&CWD, OsStr::new("/"), OFlags::empty());
                    self.folder = root.map_err(|error| self.error("opening the root folder for", error))?;
                }
                Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir | Component::Normal(_) => self.left.push_front(part.as_os_str().to_owned()),
            }
        }
        Ok(())
    }

    /// Walks to the last component, and returns its place.
    fn end(mut self) -> Result<FilePlace> {
        while let Some(name) = self.left.pop_front() {
            let is_last = self.left.is_empty();
            let there = match statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) if is_last => None,
                found => Some(found.map_err(|error| self.error("looking at", error))?),
            };
            match there {
                Some(link) if is_link(&link) => {
                    if self.follow(&name, &link, is_last)? {
                        return self.place(name);
                    }
                }
                _ if is_last && name != ".." => return self.place(name),
                _ => {
                    let next = open_folder(&self.folder, &name, OFlags::NOFOLLOW);
                    self.folder = next.map_err(|error| self.error("opening a folder of", error))?;
                }
            }
        }
        Err(Error::Limit(format!("{} is a folder: name a file in it", self.path.display())))
    }

    fn place(self, name: OsString) -> Result<FilePlace> {
        Ok(FilePlace { folder: self.folder, name, shown: self.path.to_owned() })
    }

    /// Follows a link. Returns true if it is one of procfs to a pipe or device, which has no path.
    fn follow(&mut self, name: &OsStr, link: &Stat, is_last: bool) -> Result<bool> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(self.error("finding", Errno::LOOP));
        }
        self.ensure_may_follow(name, link)?;
        if self.is_in_procfs()? {
            let opened =
                statat(&self.folder, name, AtFlags::empty()).map_err(|error| self.error("looking at", error))?;
            match FileType::from_raw_mode(opened.st_mode) {
                FileType::RegularFile => {}
                FileType::Directory => {
                    let next = open_folder(&self.folder, name, OFlags::empty());
                    self.folder = next.map_err(|error| self.error("opening a folder of", error))?;
                    return Ok(false);
                }
                _ if is_last => return Ok(true),
                _ => return Err(self.error("opening a folder of", Errno::NOTDIR)),
            }
        }
        let to = readlinkat(&self.folder, name, Vec::new()).map_err(|error| self.error("reading a link of", error))?;
        self.go_by(Path::new(OsStr::from_bytes(to.as_bytes())))?;
        Ok(false)
    }

    /// Refuses a link that another user may have made.
    fn ensure_may_follow(&self, name: &OsStr, link: &Stat) -> Result<()> {
        let folder = fstat(&self.folder).map_err(|error| self.error("looking at a folder of", error))?;
        let is_own = own_user() != 0 && is_trusted(link.st_uid);
        if !is_open_to_others(&folder) || is_own {
            return Ok(());
        }
        Err(Error::Untrusted(format!(
            "{}: {} is a symbolic link in a folder that other users may write to, and is not followed: name the file \
             itself",
            self.path.display(),
            Path::new(name).display()
        )))
    }

    fn is_in_procfs(&self) -> Result<bool> {
        let found = rustix::fs::fstatfs(&self.folder).map_err(|error| self.error("looking at a folder of", error))?;
        Ok(found.f_type as u64 == libc::PROC_SUPER_MAGIC as u64)
    }

    fn error(&self, what: &str, error: Errno) -> Error {
        io_error(what, self.path, error)
    }
}

impl FilePlace {
    /// Finds the place that `path` names.
    pub fn find(path: &Path) -> Result<Self> {
        PathWalk::along(path)?.end()
    }

    pub fn name(&self) -> &OsStr {
        &self.name
    }

    pub fn shown(&self) -> &Path {
        &self.shown
    }

    /// Returns the status of the file that has the name now, or `None` if no file has it.
    pub fn look(&self) -> Result<Option<Stat>> {
        match statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(link) if is_link(&link) => {
                // The walk stops at a link only if the kernel has to follow it.
                let opened = statat(&self.folder, &self.name, AtFlags::empty());
                opened.map(Some).map_err(|error| self.error("looking at", error))
            }
            Ok(there) => Ok(Some(there)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.error("looking at", error)),
        }
    }

    pub fn error(&self, what: &str, error: Errno) -> Error {
        io_error(what, &self.shown, error)
    }

    /// Opens the pipe or device that has the name for writing; `there` is its status.
    pub fn open_stream(&self, there: &Stat) -> Result<File> {
        let named = statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let is_link = is_link(&named.map_err(|error| self.error("looking at", error))?);
        let links = if is_link { OFlags::empty() } else { OFlags::NOFOLLOW };
        if !is_link {
            self.ensure_own(there)?;
        }
        let opened =
            openat(&self.folder, &self.name, OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOCTTY | links, PRIVATE);
        let opened = opened.map_err(|error| self.error("opening", error))?;
        let found = fstat(&opened).map_err(|error| self.error("looking at", error))?;
        if !is_link {
            self.ensure_own(&found)?;
        }
        Ok(opened.into())
    }

    /// Refuses a pipe or device that another user may have put here.
    fn ensure_own(&self, there: &Stat) -> Result<()> {
        let folder = fstat(&self.folder).map_err(|error| self.error("looking at the folder of", error))?;
        if is_trusted(there.st_uid) || !is_open_to_others(&folder) {
            return Ok(());
        }
        let (path, user) = (self.shown.display(), there.st_uid);
        Err(Error::Untrusted(format!("{path} is user {user}'s and not a plain file: name a file")))
    }

    /// Refuses the place of a pool (BK2).
    pub fn ensure_no_pool(&self) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = match openat(&self.folder, &self.name, flags, Mode::empty()) {
            // If another process has put a link here since, the link is replaced like any file.
            Err(Errno::NOENT | Errno::LOOP) => return Ok(()),
            opened => opened.map_err(|error| self.error("looking into", error))?,
        };
        let found = fstat(&file).map_err(|error| self.error("looking at", error))?;
        if is_file(&found) { ensure_file_is_no_pool(&file.into(), &self.shown) } else { Ok(()) }
    }

    /// Makes a locked part. The part has a name only if the file system does not support O_TMPFILE.
    pub fn make(&self) -> Result<FilePart> {
        match self.make_unnamed() {
            Ok(file) => Ok((file, None)),
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS) => self.make_named(),
            Err(error) => Err(self.error("making a file in the place of", error)),
        }
    }

    fn make_unnamed(&self) -> rustix::io::Result<File> {
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = File::from(openat(&self.folder, ".", flags, PRIVATE)?);
        // No other process can have locked a new file.
        let _ = file.try_lock();
        Ok(file)
    }

    /// Makes a part with a name, locked.
    pub fn make_named(&self) -> Result<FilePart> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (name, file) = self.with_free_name(|name| {
            let file = File::from(openat(&self.folder, name, flags, PRIVATE)?);
            // Before the lock, another writer may have removed the file as a leftover.
            if file.try_lock().is_ok() && self.has_name(name, &fstat(&file)?) { Ok(file) } else { Err(Errno::EXIST) }
        })?;
        Ok((file, Some(name)))
    }

    /// Calls `make` with names for a part until one is free. Removes leftovers of this user's killed writers.
    pub fn with_free_name<T>(&self, make: impl Fn(&OsStr) -> rustix::io::Result<T>) -> Result<(OsString, T)> {
        for number in 0..PARTS_MAX {
            let mut name = self.name.clone();
            name.push(if number == 0 { ".partial".into() } else { format!(".{number}.partial") });
            self.clear_leftover(&name);
            match make(&name) {
                Ok(made) => return Ok((name, made)),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.error(&format!("making {} for", Path::new(&name).display()), error)),
            }
        }
        let path = self.shown.display();
        Err(Error::Busy(format!(
            "{path}.partial to {path}.{}.partial are there, other users' or being written: remove them, or name a file in \
             a folder that only its user may write to",
            PARTS_MAX - 1
        )))
    }

    /// Removes the part called `name` if a killed writer of this user left it. Opens no other file.
    fn clear_leftover(&self, name: &OsStr) {
        let is_leftover = |there: &Stat| is_file(there) && there.st_nlink == 1 && there.st_uid == own_user();
        if !statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(|there| is_leftover(&there)) {
            return;
        }
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(file) = openat(&self.folder, name, flags, Mode::empty()).map(File::from) else { return };
        let Ok(there) = fstat(&file) else { return };
        if is_leftover(&there) && file.try_lock().is_ok() && self.has_name(name, &there) {
            let _ = self.remove(name);
        }
    }

    fn has_name(&self, name: &OsStr, file: &Stat) -> bool {
        let there = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        there.is_ok_and(|there| (there.st_dev, there.st_ino) == (file.st_dev, file.st_ino))
    }

    /// Gives `file`, which has no name, the name `name` in the folder.
    pub fn link(&self, file: &File, name: &OsStr) -> rustix::io::Result<()> {
        let through = format!("/proc/self/fd/{}", file.as_raw_fd());
        rustix::fs::linkat(CWD, through, &self.folder, name, AtFlags::SYMLINK_FOLLOW)
    }

    /// Renames the file called `part` to the name, in place of an existing file.
    pub fn rename(&self, part: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat(&self.folder, part, &self.folder, &self.name)
    }

    pub fn remove(&self, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::unlinkat(&self.folder, name, AtFlags::empty())
    }

    /// Makes the folder's names durable.
    pub fn persist_names(&self) -> Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(&self.folder, ".", flags, Mode::empty());
        let persisted = folder.and_then(|folder| rustix::fs::fsync(&folder));
        persisted.map_err(|error| self.error("syncing the folder of", error))
    }
}
