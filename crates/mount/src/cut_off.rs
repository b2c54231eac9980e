//! Cuts off the FUSE connection that a killed server waits for.
//!
//! A thread that makes the kernel forget a page waits until a read or a write of the page is answered, and no kill wakes
//! the thread. The server's connection stays open as long as the thread waits, so the kernel does not end the request
//! either. Only an abort of the connection, by `fusectl`, ends both.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::KIND;
use super::folder::mounts_at;
use super::stale::{MountAnswer, ask};
use ferrite_fuse as fuse;
use ferrite_fuse::MountEntry;

/// The device `/dev/fuse`.
const FUSE: (u32, u32) = (10, 229);
/// How long a server may take to answer, if the kernel does not report which connection a thread waits for.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cuts off the connections for which the killed process `server` waits. Programs that wait for its answers get an error,
/// and the process ends. Root may do this, and the user of the server may if `fusectl` is mounted.
///
/// From Linux 6.16 on the kernel reports to root which connection a thread waits for, even of a mount in another
/// namespace. Without that report this cuts off the visible mounts whose source `is_its` accepts and whose server does
/// not answer: the same source may belong to a living server of another pool of that name.
///
/// # Errors
/// If no connection was found, or the kernel refused to abort one.
pub fn cut_off(server: u32, is_its: impl Fn(&Path) -> bool) -> io::Result<()> {
    match awaited(server) {
        Some(awaited) => {
            let ended: Vec<io::Result<()>> = awaited.into_iter().map(end_known).collect();
            ended.into_iter().collect()
        }
        None => cut_off_silent(is_its),
    }
}

/// Cuts off the visible mounts whose source `is_its` accepts and whose server does not answer.
pub(super) fn cut_off_silent(is_its: impl Fn(&Path) -> bool) -> io::Result<()> {
    let is_silent = |mount: &MountEntry| {
        is_uppermost(mount) && ask(&mount.point, PATIENCE).is_ok_and(|it| it == MountAnswer::Silent)
    };
    let silent = MountEntry::seen_by("self")?.into_iter().filter(|mount| mount.kind == KIND && is_its(&mount.source));
    let silent = silent.filter(is_silent);
    let ended: Vec<io::Result<()>> =
        silent.map(|mount| end(libc::minor(mount.device)).or_else(|_| force(&mount))).collect();
    if ended.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { ended.into_iter().collect() }
}

/// Aborts the connection `number`. A thread waits for it, so the kernel has not reused the number.
fn end_known(number: u32) -> io::Result<()> {
    end(number).or_else(|why| {
        let is_it =
            |mount: &MountEntry| mount.kind == KIND && libc::minor(mount.device) == number && is_uppermost(mount);
        force(&MountEntry::seen_by("self")?.into_iter().find(is_it).ok_or(why)?)
    })
}

/// Returns the connections for which threads of `server` wait in a system call, or `None` if the kernel does not report
/// them. Other descriptors of the process do not count: their connections may have ended, and their numbers may be in
/// use again.
fn awaited(server: u32) -> Option<BTreeSet<u32>> {
    let threads = fs::read_dir(format!("/proc/{server}/task")).into_iter().flatten().flatten();
    let told: Vec<io::Result<Option<u32>>> = threads.map(|thread| awaited_by(&thread.path())).collect();
    let numbers: BTreeSet<u32> = told.iter().flatten().flatten().copied().collect();
    (!numbers.is_empty() || told.iter().all(Result::is_ok)).then_some(numbers)
}

/// Returns the connection that `thread` waits for.
///
/// # Errors
/// If the kernel does not report it.
fn awaited_by(thread: &Path) -> io::Result<Option<u32>> {
    let call = match fs::read_to_string(thread.join("syscall")) {
        // The thread has ended.
        Err(_) if !thread.exists() => return Ok(None),
        told => told?,
    };
    let first = call.split(' ').nth(1).and_then(|word| u32::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let Some(descriptor) = first.filter(|descriptor| is_fuse(&thread.join(format!("fd/{descriptor}")))) else {
        return Ok(None);
    };
    let told = fs::read_to_string(thread.join(format!("fdinfo/{descriptor}")))?;
    let number = told.lines().find_map(|line| line.strip_prefix("fuse_connection:"));
    number.and_then(|number| number.trim().parse().ok()).map(Some).ok_or(io::ErrorKind::Unsupported.into())
}

fn is_fuse(descriptor: &Path) -> bool {
    let device = libc::makedev(FUSE.0, FUSE.1);
    fs::metadata(descriptor).is_ok_and(|it| it.file_type().is_char_device() && it.rdev() == device)
}

/// Aborts a connection.
fn end(number: u32) -> io::Result<()> {
    let abort = PathBuf::from(format!("{number}/abort"));
    let there = OpenOptions::new().write(true).open(Path::new("/sys/fs/fuse/connections").join(&abort));
    there.or_else(|_| open_in_own(&abort))?.write_all(b"1")
}

/// Opens `path` in a private mount of `fusectl`, which ends when this returns.
fn open_in_own(path: &Path) -> io::Result<File> {
    let kind = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&kind)?;
    let own = fsmount(&kind, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&own, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// Aborts a connection by a forced unmount, which root of a container may do. A mount over it stays.
fn force(mount: &MountEntry) -> io::Result<()> {
    if !is_uppermost(mount) {
        return Err(io::Error::other("something else was mounted over it"));
    }
    match fuse::cut_off(&mount.point) {
        // A mount in use stays, and every access to it fails.
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        done => done,
    }
}

/// Returns true if no other mount hides `mount` at its folder.
fn is_uppermost(mount: &MountEntry) -> bool {
    mounts_at(&mount.point).last().is_some_and(|uppermost| uppermost.device == mount.device)
}
