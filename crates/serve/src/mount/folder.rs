//! The folder of a mount, held by a descriptor while the kernel mounts on it or unmounts from it.
//!
//! - MF1. Root mounts and unmounts at a folder that it has opened. While it walks there it follows a symbolic link only if
//!   the link belongs to root or to this process's user, so no other user redirects it, before or meanwhile.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::KIND;
use crate::attach::fuse::{self, is_root};
use crate::attach::mounts::Mount;

/// Symbolic links that one path may lead through, as the kernel has it.
const LINKS_MAX: u32 = 40;

/// Which symbolic links a walk follows.
#[derive(Clone, Copy)]
enum Links {
    /// Those of root and of this process's user.
    Trusted,
    /// None: the path comes from the kernel, which lists none.
    None,
}

/// An open folder.
#[derive(Debug)]
pub(super) struct Folder(OwnedFd);

impl Folder {
    /// Opens the folder at the absolute path `path`.
    ///
    /// # Errors
    /// If there is none, or the path leads through another user's symbolic link.
    pub fn open(path: &Path) -> io::Result<Self> {
        walk(path, Links::Trusted).map(Self)
    }

    /// A path that leads to this very folder, whatever is renamed meanwhile.
    pub fn exact(&self) -> PathBuf {
        exact(self.0.as_fd())
    }

    /// Where the kernel sees the folder now.
    pub fn path(&self) -> io::Result<PathBuf> {
        fs::read_link(self.exact())
    }

    /// What is mounted on the folder and seen there.
    pub fn mounted(&self) -> io::Result<Option<Mount>> {
        let above = openat(&self.0, "..", FOLDER, Mode::empty())?;
        let path = self.path()?;
        let Some(name) = path.file_name() else { return Ok(None) };
        uppermost(above.as_fd(), name)
    }
}

/// Refuses an absolute path that leads root through another user's symbolic link, before folders are made there (MF1). What
/// else is wrong with the path is not looked at.
///
/// # Errors
/// If it does.
pub fn ensure_own_links(path: &Path) -> io::Result<()> {
    match walk(path, Links::Trusted) {
        Err(why) if is_root() && why.raw_os_error().is_none() => Err(why),
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
        // Without asking what the entry is: the server of a mount would be asked, which may not answer.
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

/// Where the symbolic link `entry` leads, if `links` are followed that are like it.
fn followed(entry: &OwnedFd, links: Links) -> Result<PathBuf, Refused> {
    let found = fstat(entry)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::Symlink {
        return Err(Errno::NOTDIR.into());
    }
    let is_trusted = found.st_uid == 0 || found.st_uid == geteuid().as_raw();
    #[cfg(test)]
    let is_trusted = is_trusted || super::tests::is_planted(super::tests::Bug::LinkFollowed);
    if matches!(links, Links::None) || !is_trusted {
        return Err(Refused::Link { user: found.st_uid });
    }
    Ok(OsString::from_vec(readlinkat(entry, "", Vec::new())?.into_bytes()).into())
}

/// Why an entry of a path is not followed.
enum Refused {
    Link { user: u32 },
    Other(Errno),
}

impl From<Errno> for Refused {
    fn from(why: Errno) -> Self {
        Self::Other(why)
    }
}

impl Refused {
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

/// What is seen at `name` in the folder `above`, if something is mounted there. Asks no server.
fn uppermost(above: BorrowedFd<'_>, name: &OsStr) -> io::Result<Option<Mount>> {
    let (id, below) = (mount_id(openat(above, name, ENTRY, Mode::empty())?.as_fd())?, mount_id(above)?);
    Ok(Mount::seen_by("self")?.into_iter().find(|mount| mount.id == id && id != below))
}

/// The kernel's number of the mount that the open `entry` lies on.
fn mount_id(entry: BorrowedFd<'_>) -> io::Result<u64> {
    let told = fs::read_to_string(format!("/proc/self/fdinfo/{}", entry.as_raw_fd()))?;
    let id = told.lines().find_map(|line| line.strip_prefix("mnt_id:")).and_then(|id| id.trim().parse().ok());
    id.ok_or(io::ErrorKind::Unsupported.into())
}

/// `point` as the kernel's list has it, without symbolic links.
pub(super) fn resolved(point: &Path) -> PathBuf {
    fs::canonicalize(point).unwrap_or_else(|_| point.into())
}

pub(super) fn mounts_at(point: &Path) -> impl Iterator<Item = Mount> {
    let point = point.to_path_buf();
    Mount::seen_by("self").unwrap_or_default().into_iter().filter(move |mount| mount.point == point)
}

/// Unmounts from `point`, as the kernel lists it, what `is_it`; `lazily`: out of sight now, gone with its last user.
pub(super) fn unmount(point: &Path, lazily: bool, is_it: impl Fn(&Mount) -> bool) -> io::Result<()> {
    if is_root() {
        return unmount_as_root(point, lazily, is_it);
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

/// By the folder above, which is open (MF1): a descriptor of what is mounted would keep it busy.
fn unmount_as_root(point: &Path, lazily: bool, is_it: impl Fn(&Mount) -> bool) -> io::Result<()> {
    let (Some(above), Some(name)) = (point.parent(), point.file_name()) else {
        return Err(io::Error::other("nothing of ferrite is mounted on the root folder"));
    };
    let above = walk(above, Links::None)?;
    if !uppermost(above.as_fd(), name)?.is_some_and(|mount| mount.kind == KIND && is_it(&mount)) {
        return Err(io::Error::other("something else is mounted there, or it was moved meanwhile"));
    }
    // While it is mounted on, nobody can rename the folder or put a link in its place.
    let at = exact(above.as_fd()).join(name);
    if lazily { fuse::unmount_lazily(&at) } else { fuse::unmount_unused(&at) }
}
