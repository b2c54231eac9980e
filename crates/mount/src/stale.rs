//! Finds and clears mounts that a killed server left.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::KIND;
use super::folder::{mounts_at, resolved, unmount};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Unmounts a Ferrite mount on `point` whose server is dead. Returns true if there was one.
///
/// # Errors
/// If the kernel refuses to unmount it, or if the mount neither answers nor fails within ten seconds: a killed server may
/// wait in the kernel for a program that waits for it.
pub fn clear_stale(point: &Path) -> io::Result<bool> {
    let (point, mut is_cleared) = (&resolved(point), false);
    while mounts_at(point).any(|mount| mount.kind == KIND) && is_dead(point)? {
        unmount(point, true, |_| true)?;
        is_cleared = true;
    }
    Ok(is_cleared)
}

/// The state of the server of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountAnswer {
    /// The server answers, or the kernel does not forward requests of this user.
    Alive,
    /// The server has ended.
    Dead,
    /// The server did not answer in time.
    Silent,
}

/// Returns whether the server of the mount on `point` answers within `patience`. Calls statfs(2), which the kernel
/// neither caches nor protects by a lock.
///
/// # Errors
/// If no thread can be started.
pub fn ask(point: &Path, patience: Duration) -> io::Result<MountAnswer> {
    let (said, says) = channel();
    let asked = point.to_path_buf();
    let ask = move || said.send(rustix::fs::statfs(asked).is_err_and(|why| why == Errno::NOTCONN));
    // A thread without an answer ends with this process.
    thread::Builder::new().name("ferrite-asks".into()).spawn(ask)?;
    Ok(match says.recv_timeout(patience) {
        Ok(true) => MountAnswer::Dead,
        Ok(false) | Err(RecvTimeoutError::Disconnected) => MountAnswer::Alive,
        Err(RecvTimeoutError::Timeout) => MountAnswer::Silent,
    })
}

/// Returns true if the server of the mount on `point` has ended.
fn is_dead(point: &Path) -> io::Result<bool> {
    match ask(point, PATIENCE)? {
        MountAnswer::Dead => Ok(true),
        MountAnswer::Alive => Ok(false),
        MountAnswer::Silent => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "what is mounted there does not answer: its server stands still, or was killed and waits in the kernel; \
                 as root `umount -f {}` ends it",
                point.display()
            ),
        )),
    }
}
