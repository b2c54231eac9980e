//! The folder of a mount, held by a descriptor while the kernel mounts on it or unmounts from it.
//!
//! - MF1. A process with the right to mount works at a folder that it has opened. On the way there it follows a symbolic
//!   link only if the link belongs to root or to this process's user. So no other user redirects the mount, before or
//!   while it is made.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use ferrite_memory::planted;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::KIND;
use ferrite_fuse::MountEntry;
use ferrite_fuse::{self as fuse, may_mount};

/// The kernel's limit of symbolic links on one path.
const LINKS_MAX: u32 = 40;

/// Which symbolic links a walk follows.
#[derive(Clone, Copy)]
enum Links {
    /// Links of root and of this process's user.
    Trusted,
    /// No links: the path comes from the kernel, which lists paths without links.
    None,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct MountFolder(OwnedFd);

impl MountFolder {
    /// Opens the folder at the absolute path `path`.
    ///
    /// # Errors
    /// If no folder is there, or the path leads through another user's symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        walk(path, Links::Trusted).map(Self)
    }

    /// Returns a path that leads to this folder, even after another process renames it.
    pub fn exact(&self) -> PathBuf {
        exact(self.0.as_fd())
    }

    /// Returns the path at which the kernel sees the folder now.
    pub fn path(&self) -> io::Result<PathBuf> {
        fs::read_link(self.exact())
    }

    /// Returns the mount that is seen at the folder, if something is mounted on it.
    pub fn mounted(&self) -> io::Result<Option<MountEntry>> {
        let above = openat(&self.0, "..", FOLDER, Mode::empty())?;
        let path = self.path()?;
        let Some(name) = path.file_name() else { return Ok(None) };
        uppermost(above.as_fd(), name)
    }
}

/// Refuses an absolute path that leads this process through another user's symbolic link, before folders are made there (MF1).
/// Ignores other faults of the path.
///
/// # Errors
/// If the path leads through such a link.
pub fn ensure_own_links(path: &Path) -> io::Result<()> {
    match walk(path, Links::Trusted) {
        Err(why) if may_mount() && why.raw_os_error().is_none() => Err(why),
        _ => Ok(()),
    }
}

const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const ENTRY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn exact(folder: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

/// Opens the folder at `path`, entry by entry.
fn walk(path: &Path, links: Links) -> io::Result<OwnedFd> {
    let mut at = openat(CWD, "/", FOLDER, Mode::empty())?;
    let (mut rest, mut count) = (entries(path), 0);
    while let Some(name) = rest.pop_front() {
        // No `stat` of the entry: it would ask the server of a mount, which may not answer.
        let link = match openat(&at, &name, FOLDER.union(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(folder) => {
                at = folder;
                continue;
            }
            Err(Errno::NOTDIR | Errno::LOOP) => openat(&at, &name, ENTRY, Mode::empty())?,
            Err(why) => return Err(why.into()),
        };
        let target = followed(&link, links).map_err(|why| why.told(path, &name))?;
        count += 1;
        if count > LINKS_MAX {
            return Err(Errno::LOOP.into());
        }
        if target.is_absolute() {
            at = openat(CWD, "/", FOLDER, Mode::empty())?;
        }
        entries(&target).into_iter().rev().for_each(|name| rest.push_front(name));
    }
    Ok(at)
}

/// Returns the target of the symbolic link `entry`, if `links` allows following it.
fn followed(entry: &OwnedFd, links: Links) -> Result<PathBuf, LinkRefusal> {
    let found = fstat(entry)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Err(Errno::NOTDIR.into());
    }
    let is_trusted = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
    let is_trusted = is_trusted || planted!("mount: link followed");
    if matches!(links, Links::None) || !is_trusted {
        return Err(LinkRefusal::Link { user: found.st_uid });
    }
    Ok(OsString::from_vec(readlinkat(entry, "", Vec::new())?.into_bytes()).into())
}

/// Why an entry of a path is not followed.
enum LinkRefusal {
    Link { user: u32 },
    Other(Errno),
}

impl From<Errno> for LinkRefusal {
    fn from(why: Errno) -> Self {
        Self::Other(why)
    }
}

impl LinkRefusal {
    fn told(self, path: &Path, name: &OsStr) -> io::Error {
        match self {
            Self::Other(why) => why.into(),
            Self::Link { user } => io::Error::other(format!(
                "{} leads through {}, a symbolic link of user {user}: name the folder itself",
                path.display(),
                name.display()
            )),
        }
    }
}

fn entries(path: &Path) -> VecDeque<OsString> {
    let is_entry = |part: &Component<'_>| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(is_entry).map(|part| part.as_os_str().to_owned()).collect()
}

/// Returns the mount that is seen at `name` in the folder `above`, if something is mounted there. Asks no server.
fn uppermost(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<MountEntry>> {
    let (id, below) = (mount_id(openat(above, name, ENTRY, Mode::empty())?.as_fd())?, mount_id(above)?);
    Ok(MountEntry::seen_by("self")?.into_iter().find(|mount| mount.id == id && id != below))
}

/// Returns the kernel's number of the mount that the open `entry` lies on.
fn mount_id(entry: BorrowedFd<'_>) -> io::Result<u64> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", entry.as_raw_fd()))?;
    let id = told.lines().find_map(|line| line.strip_prefix("mnt_id:")).and_then(|id| id.trim().parse().ok());
    id.ok_or(io::ErrorKind::Unsupported.into())
}

/// Returns `point` without symbolic links, as the kernel lists it.
pub(super) fn resolved(point: &Path) -> PathBuf {
    fs::canonicalize(point).unwrap_or_else(|_| point.into())
}

pub(super) fn mounts_at(point: &Path) -> impl Iterator<Item = MountEntry> {
    let point = point.to_path_buf();
    MountEntry::seen_by("self").unwrap_or_default().into_iter().filter(move |mount| mount.point == point)
}

/// Unmounts from `point`, a path as the kernel lists it. By its own right a process unmounts only a mount that `is_it` accepts. If `lazily`,
/// the mount leaves the tree now and ends with its last user.
pub(super) fn unmount(point: &Path, lazily: bool, is_it: impl Fn(&MountEntry) -> bool) -> io::Result<()> {
    if may_mount() {
        return unmount_by_right(point, lazily, is_it);
    }
    let mut program = Command::new("fusermount3");
    program.arg("-u").args(lazily.then_some("-z")).arg("--").arg(point);
    let ended = program.output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    match ended.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(io::ErrorKind::ResourceBusy.into()),
        false => Err(io::Error::other(said.trim().to_owned())),
    }
}

/// Unmounts by a descriptor of the folder above (MF1): a descriptor of the mount would keep the mount busy.
fn unmount_by_right(point: &Path, lazily: bool, is_it: impl Fn(&MountEntry) -> bool) -> io::Result<()> {
    let (Some(above), Some(name)) = (point.parent(), point.file_name()) else {
        return Err(io::Error::other("nothing of ferrite is mounted on the root folder"));
    };
    let above = walk(above, Links::None)?;
    if !uppermost(above.as_fd(), name)?.is_some_and(|mount| mount.kind == KIND && is_it(&mount)) {
        return Err(io::Error::other("something else is mounted there, or it was moved meanwhile"));
    }
    // While something is mounted on the folder, no process can rename it or put a link in its place.
    let at = exact(above.as_fd()).join(name);
    if lazily { fuse::unmount_lazily(&at) } else { fuse::unmount_unused(&at) }
}
