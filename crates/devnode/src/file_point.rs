//! The place of a disk as a file: a name in an open folder, on which the kernel mounts the file.
//!
//! The folder is open, so no other user makes this process mount or unmount elsewhere by a rename or a link. While
//! something is mounted on the name, no process renames or removes it.

use std::ffi::{CString, OsString};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, open, openat, statat, unlinkat};
use rustix::io::Errno;

use super::runtime_dir::RuntimeDir;
use super::{Error, Result};
use ferrite_fuse::MountEntry;

/// The type of the mounts in the kernel's list.
const KIND: &str = "fuse.ferrite";

/// A name in an open folder.
#[derive(Debug)]
pub(super) struct FilePoint {
    /// The path, without links, at the time of the opening.
    pub path: PathBuf,
    above: OwnedFd,
    name: OsString,
}

impl FilePoint {
    /// Opens the folder of `path`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "this names no file"));
        };
        let above = open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let real = fs::read_link(format!("/proc/self/fd/{}", above.as_raw_fd()))?;
        Ok(Self { path: real.join(name), above, name: name.into() })
    }

    /// Returns a path to the name through the open folder, for this process and its children.
    pub fn exact(&self) -> PathBuf {
        Path::new(&format!("/proc/{}/fd/{}", std::process::id(), self.above.as_raw_fd())).join(&self.name)
    }

    /// Returns [`FilePoint::exact`] for system calls of a child.
    pub fn exact_c(&self) -> io::Result<CString> {
        Ok(CString::new(self.exact().as_os_str().as_bytes())?)
    }

    /// Makes the empty file if it is missing, and returns it.
    ///
    /// # Errors
    /// [`Error::FileTaken`] if the name is anything but an empty file, and the system's errors.
    pub fn make(&self) -> Result<File> {
        let making = |error: Errno| Error::io(format!("making {}", self.path.display()))(error.into());
        let taken = |why: &str| Err(Error::FileTaken { path: self.path.clone(), why: why.into() });
        if mounts().iter().any(|mount| mount.point == self.path) {
            return taken("has something mounted on it");
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match openat(&self.above, &self.name, flags | OFlags::CREATE | OFlags::EXCL, Mode::from(0o600)) {
            Err(Errno::EXIST) => match openat(&self.above, &self.name, flags, Mode::empty()) {
                Err(Errno::LOOP) => return taken("is a link"),
                other => other.map_err(making)?,
            },
            other => other.map_err(making)?,
        };
        let found = fstat(&file).map_err(making)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return taken("is not a file");
        }
        if found.st_size != 0 { taken("has content, which the guest would hide") } else { Ok(file.into()) }
    }

    /// Removes the file if it is empty and nothing is mounted on it.
    pub fn remove(&self) {
        let found = statat(&self.above, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        let is_placeholder =
            |it: &rustix::fs::Stat| FileType::from_raw_mode(it.st_mode) == FileType::RegularFile && it.st_size == 0;
        if found.is_ok_and(|it| is_placeholder(&it)) {
            // The kernel refuses to remove a name on which something is mounted.
            let _ = unlinkat(&self.above, &self.name, AtFlags::empty());
        }
    }

    /// Returns the number of the file system that `place` has mounted, if the kernel lists it.
    ///
    /// # Errors
    /// Returns an error if something else is mounted over it: that would be unmounted in its place.
    pub fn mounted(place: &RuntimeDir) -> io::Result<Option<u64>> {
        let all = mounts();
        let Some(ours) = all.iter().rfind(|mount| is_of(mount, place)) else { return Ok(None) };
        let uppermost = all.iter().rfind(|mount| mount.point == ours.point);
        if uppermost.is_some_and(|mount| mount.id != ours.id) {
            return Err(io::Error::other("something else was mounted over it: unmount that first"));
        }
        Ok(Some(ours.device))
    }
}

fn mounts() -> Vec<MountEntry> {
    MountEntry::seen_by("self").unwrap_or_default()
}

fn is_of(mount: &MountEntry, place: &RuntimeDir) -> bool {
    mount.kind == KIND && mount.source == place.root()
}

/// Unmounts the files of a killed server of `place`, whose lock the caller holds: programs that map one get errors.
/// A server that was killed before it mounted its file has left the empty file: it goes if it is in `place`.
pub(super) fn clear_dead(place: &RuntimeDir, notes: &mut Vec<String>) -> Result<()> {
    for mount in mounts().into_iter().filter(|mount| is_of(mount, place)) {
        let unmounting = || Error::io(format!("unmounting {}", mount.point.display()));
        let point = FilePoint::open(&mount.point).map_err(unmounting())?;
        if point.path != mount.point {
            return Err(unmounting()(io::Error::other("its folder was moved meanwhile")));
        }
        ferrite_fuse::unmount(&point.exact()).map_err(unmounting())?;
        point.remove();
        notes.push(format!("unmounted the dead {}", mount.point.display()));
    }
    if let Ok(point) = FilePoint::open(&place.file()) {
        point.remove();
    }
    Ok(())
}

/// Returns true if the process `pid` has the file at `path`, on the file system `device`, open or mapped.
pub(super) fn is_used_by(pid: &str, path: &Path, device: u64) -> bool {
    let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let is_open = open.map(|entry| entry.path()).any(|fd| fs::read_link(fd).is_ok_and(|target| target == path));
    let numbers = format!("{:02x}:{:02x}", libc::major(device), libc::minor(device));
    let is_it = |line: &str| line.split_ascii_whitespace().nth(3) == Some(&numbers);
    is_open || fs::read_to_string(format!("/proc/{pid}/maps")).is_ok_and(|maps| maps.lines().any(is_it))
}
