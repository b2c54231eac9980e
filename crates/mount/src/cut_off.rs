//! Ending what a killed server waits for.
//!
//! A thread that has the kernel forget a page waits until a read or a write of it is answered, and no kill wakes it. The
//! server's connection is open as long as the thread waits, so the kernel does not end the request either. Who ends the
//! connection ends all of it; `fusectl` is where that is asked for.

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
use super::stale::{Answer, ask};
use ferrite_fuse as fuse;
use ferrite_fuse::Mount;

/// The device `/dev/fuse`.
const FUSE: (u32, u32) = (10, 229);
/// How long a server may take to say that it is there, where the kernel does not tell who waits for what.
const PATIENCE: Duration = Duration::from_secs(2);

/// Cuts off what process `server`, which was killed, waits for: who waits for an answer has an error instead, and the
/// process comes to its end. Where it waits for nothing, it is about to. Root may; its user may where `fusectl` is mounted.
///
/// The kernel tells which connection a thread waits for (Linux 6.16, to root), also of a mount that is out of sight or in
/// another namespace. Where it does not, all are cut off that are seen here, whose source `is_its`, and that do not answer:
/// the same source may be a living server's, of a pool that was called so before, or is so in another root.
///
/// # Errors
/// Where nothing is known to be cut off, or is not.
pub fn cut_off(server: u32, is_its: impl Fn(&Path) -> bool) -> io::Result<()> {
    match awaited(server) {
        Some(awaited) => {
            let ended: Vec<io::Result<()>> = awaited.into_iter().map(end_known).collect();
            ended.into_iter().collect()
        }
        None => cut_off_silent(is_its),
    }
}

/// Cuts off all that is seen here, whose source `is_its`, and that does not answer.
pub(super) fn cut_off_silent(is_its: impl Fn(&Path) -> bool) -> io::Result<()> {
    let is_silent =
        |mount: &Mount| is_uppermost(mount) && ask(&mount.point, PATIENCE).is_ok_and(|it| it == Answer::Silent);
    let silent = Mount::seen_by("self")?.into_iter().filter(|mount| mount.kind == KIND && is_its(&mount.source));
    let silent = silent.filter(is_silent);
    let ended: Vec<io::Result<()>> =
        silent.map(|mount| end(libc::minor(mount.device)).or_else(|_| force(&mount))).collect();
    if ended.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { ended.into_iter().collect() }
}

/// Ends the connection `number`, which a thread waits for, so that it is nobody else's.
fn end_known(number: u32) -> io::Result<()> {
    end(number).or_else(|why| {
        let is_it = |mount: &Mount| mount.kind == KIND && libc::minor(mount.device) == number && is_uppermost(mount);
        force(&Mount::seen_by("self")?.into_iter().find(is_it).ok_or(why)?)
    })
}

/// The connections that threads of `server` wait for in a call; none where the kernel does not tell. Others that it has open
/// may be ended already, and their numbers a living server's.
fn awaited(server: u32) -> Option<BTreeSet<u32>> {
    let threads = fs::read_dir(format!("/proc/{server}/task")).into_iter().flatten().flatten();
    let told: Vec<io::Result<Option<u32>>> = threads.map(|thread| awaited_by(&thread.path())).collect();
    let numbers: BTreeSet<u32> = told.iter().flatten().flatten().copied().collect();
    (!numbers.is_empty() || told.iter().all(Result::is_ok)).then_some(numbers)
}

/// An error where that is not told.
fn awaited_by(thread: &Path) -> io::Result<Option<u32>> {
    let call = match fs::read_to_string(thread.join("syscall")) {
        // It has ended.
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

/// Ends a connection.
fn end(number: u32) -> io::Result<()> {
    let abort = PathBuf::from(format!("{number}/abort"));
    let there = OpenOptions::new().write(true).open(Path::new("/sys/fs/fuse/connections").join(&abort));
    there.or_else(|_| open_in_own(&abort))?.write_all(b"1")
}

/// Opens `path` in a `fusectl` that nobody sees, which is gone when this returns.
fn open_in_own(path: &Path) -> io::Result<File> {
    let kind = fsopen("fusectl", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&kind)?;
    let own = fsmount(&kind, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
    Ok(openat(&own, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?.into())
}

/// The same by unmounting, which a container's root may. What was mounted over it stays as it is.
fn force(mount: &Mount) -> io::Result<()> {
    if !is_uppermost(mount) {
        return Err(io::Error::other("something else was mounted over it"));
    }
    match fuse::cut_off(&mount.point) {
        // What is used stays mounted, and answers that nobody is there.
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        done => done,
    }
}

/// Whether it is what is seen at its point.
fn is_uppermost(mount: &Mount) -> bool {
    mounts_at(&mount.point).last().is_some_and(|uppermost| uppermost.device == mount.device)
}
