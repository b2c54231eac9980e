//! Ending what a killed server waits for.
//!
//! A thread that has the kernel forget a page waits until a read or a write of it is answered, and no kill wakes it. The
//! server's connection is open as long as the thread waits, so the kernel does not end the request either. Who ends the
//! connection ends all of it; `fusectl` is where that is asked for.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use super::{KIND, mounts_at};
use crate::attach::fuse;
use crate::attach::mounts::Mount;

/// Cuts off what process `server`, which was killed, waits for: who waits for an answer has an error instead, and the
/// process comes to its end. Root may; its user may where `fusectl` is mounted.
///
/// The kernel tells which connection a thread waits for (Linux 6.16, to root), also of a mount that is out of sight or in
/// another namespace. Where it does not, all are cut off that are seen here and whose source `is_its`.
///
/// # Errors
/// Where nothing is known to be cut off, or is not.
pub fn cut_off(server: u32, is_its: impl Fn(&Path) -> bool) -> io::Result<()> {
    let awaited = awaited(server);
    if !awaited.is_empty() && awaited.iter().all(|number| end(*number).is_ok()) {
        return Ok(());
    }
    let seen = Mount::seen_by("self")?.into_iter().filter(|mount| mount.kind == KIND && is_its(&mount.source));
    let ended: Vec<io::Result<()>> =
        seen.map(|mount| end(libc::minor(mount.device)).or_else(|_| force(&mount))).collect();
    if ended.is_empty() { Err(io::ErrorKind::NotFound.into()) } else { ended.into_iter().collect() }
}

/// The connections that threads of `server` wait for in a call. Others that it has open may be ended already, and their
/// numbers a living server's.
fn awaited(server: u32) -> BTreeSet<u32> {
    let threads = fs::read_dir(format!("/proc/{server}/task")).into_iter().flatten().flatten();
    threads.filter_map(|thread| awaited_by(&thread.path())).collect()
}

fn awaited_by(thread: &Path) -> Option<u32> {
    let call = fs::read_to_string(thread.join("syscall")).ok()?;
    let descriptor = u32::from_str_radix(call.split(' ').nth(1)?.strip_prefix("0x")?, 16).ok()?;
    let told = fs::read_to_string(thread.join(format!("fdinfo/{descriptor}"))).ok()?;
    told.lines().find_map(|line| line.strip_prefix("fuse_connection:"))?.trim().parse().ok()
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
    if mounts_at(&mount.point).last().is_none_or(|uppermost| uppermost.device != mount.device) {
        return Err(io::Error::other("something else was mounted over it"));
    }
    match fuse::cut_off(&mount.point) {
        // What is used stays mounted, and answers that nobody is there.
        Err(why) if why.kind() == io::ErrorKind::ResourceBusy => Ok(()),
        done => done,
    }
}
