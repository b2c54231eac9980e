//! How a listening socket gets its name.
//!
//! ```text
//!   bind and listen at .ferrite-PID-N   link to NAME   unlink .ferrite-PID-N
//! ```
//!
//! A socket listens before it has its name, so a name without a listener is stale. The server waits for no lock:
//! another user can lock any folder that it may read.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Longest path the kernel takes for a socket, in bytes (`sun_path` with its final zero).
const PATH_MAX_BYTES: usize = 107;
/// Attempts to get a name that other servers want too.
const ATTEMPTS_MAX: u32 = 100;

/// Gives the name `path` to the socket that `listen` makes at a spare name, in place of a stale socket. Returns the
/// socket, and the device and inode of its file.
///
/// # Errors
/// `AddrInUse` if a process listens there, `AlreadyExists` if `path` is not a socket, or the system's error.
pub fn place_socket<S>(path: &Path, listen: impl FnOnce(&Path) -> io::Result<S>) -> io::Result<(S, (u64, u64))> {
    let name = path.file_name().ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
    let folder_path = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY).open(folder_path)?;
    let at = |name: &OsStr| short_path(folder_path, &folder, name);
    let (path, fresh, aside) = (at(name)?, at(&spare_name())?, at(&spare_name())?);
    remove_own_leftover(&fresh);
    let socket = listen(&fresh)?;
    let placed = fs::symlink_metadata(&fresh).and_then(|bound| {
        link(&fresh, &path, &aside)?;
        Ok((bound.dev(), bound.ino()))
    });
    let _ = fs::remove_file(&fresh);
    Ok((socket, placed?))
}

/// Returns a path short enough for the kernel: the plain one, or one through the descriptor of the folder.
fn short_path(folder_path: &Path, folder: &File, name: &OsStr) -> io::Result<PathBuf> {
    let through = Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(name);
    let fits = |path: &PathBuf| path.as_os_str().len() <= PATH_MAX_BYTES;
    [folder_path.join(name), through].into_iter().find(fits).ok_or_else(|| io::ErrorKind::InvalidFilename.into())
}

/// Returns a name that no other socket of a living process has.
fn spare_name() -> OsString {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!(".ferrite-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed)).into()
}

/// Removes a socket that a killed process of this user left under a spare name.
fn remove_own_leftover(path: &Path) {
    if fs::symlink_metadata(path)
        .is_ok_and(|there| there.file_type().is_socket() && there.uid() == rustix::process::geteuid().as_raw())
    {
        let _ = fs::remove_file(path);
    }
}

/// Gives the socket at `fresh` also the name `path`. Replaces a stale socket there, and never one on which a process
/// listens.
fn link(fresh: &Path, path: &Path, aside: &Path) -> io::Result<()> {
    for _ in 0..ATTEMPTS_MAX {
        match fs::hard_link(fresh, path) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => remove_stale(path, aside)?,
            other => return other,
        }
    }
    Err(in_the_way(io::ErrorKind::AddrInUse, "other servers put their sockets there all the time"))
}

fn in_the_way(kind: io::ErrorKind, what: &str) -> io::Error {
    io::Error::new(kind, what)
}

/// Removes the socket of a dead server. Another server may do the same at once and put its own socket there. So the
/// socket is moved aside before it is removed, and moved back if a process listens on it.
fn remove_stale(path: &Path, aside: &Path) -> io::Result<()> {
    ensure_stale(path)?;
    match fs::rename(path, aside) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        moved => moved?,
    }
    let stale = ensure_stale(aside);
    if stale.is_err() {
        // If a third server has the name by now, clients find that one.
        let _ = fs::hard_link(aside, path);
    }
    fs::remove_file(aside)?;
    stale
}

/// Connects without waiting: another user's server may never accept.
fn try_connect(path: &Path) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(connect(&socket, &SocketAddrUnix::new(path)?)?)
}

/// Refuses an existing file that is not a stale socket.
fn ensure_stale(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => match try_connect(path) {
            Err(e) if matches!(e.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound) => Ok(()),
            // A full queue belongs to a live server.
            Ok(_) => Err(in_the_way(io::ErrorKind::AddrInUse, "another server listens there")),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                Err(in_the_way(io::ErrorKind::AddrInUse, "another server listens there and is busy"))
            }
            Err(e) => Err(e),
        },
        Ok(_) => Err(in_the_way(io::ErrorKind::AlreadyExists, "a file that is not a socket is in the way")),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests;
