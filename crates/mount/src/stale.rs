//! What a killed server left mounted.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;

use super::KIND;
use super::folder::{mounts_at, resolved, unmount};

/// How long a server may take to say that it is there.
const PATIENCE: Duration = Duration::from_secs(10);

/// Takes away what a killed server left mounted on `point`: a mount of ours that answers no more. Whether there was one.
///
/// # Errors
/// Where it cannot be taken away, and where nobody tells within ten seconds whether anybody is there: a server that was
/// killed may wait in the kernel for a program that waits for it.
pub fn clear_stale(point: &Path) -> io::Result<bool> {
    let (point, mut is_cleared) = (&resolved(point), false);
    while mounts_at(point).any(|mount| mount.kind == KIND) && is_dead(point)? {
        unmount(point, true, |_| true)?;
        is_cleared = true;
    }
    Ok(is_cleared)
}

/// Whether a server answers for a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It does, or the kernel does not ask it for this user.
    Alive,
    /// There is none any more.
    Dead,
    /// It said nothing for as long as it was waited for.
    Silent,
}

/// Whether a server answers for the mount on `point` within `patience`. It is asked how full it is: that the kernel does
/// not remember, and takes no lock for.
///
/// # Errors
/// Where it cannot be asked, as there is no thread for it.
pub fn ask(point: &Path, patience: Duration) -> io::Result<Answer> {
    let (said, says) = channel();
    let asked = point.to_path_buf();
    let ask = move || said.send(rustix::fs::statfs(asked).is_err_and(|why| why == Errno::NOTCONN));
    // One that is never answered ends with this process.
    thread::Builder::new().name("ferrite-asks".into()).spawn(ask)?;
    Ok(match says.recv_timeout(patience) {
        Ok(true) => Answer::Dead,
        Ok(false) | Err(RecvTimeoutError::Disconnected) => Answer::Alive,
        Err(RecvTimeoutError::Timeout) => Answer::Silent,
    })
}

/// Whether nobody answers for the mount on `point`.
fn is_dead(point: &Path) -> io::Result<bool> {
    match ask(point, PATIENCE)? {
        Answer::Dead => Ok(true),
        Answer::Alive => Ok(false),
        Answer::Silent => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!(
                "what is mounted there does not answer: its server stands still, or was killed and waits in the kernel; \
                 as root `umount -f {}` ends it",
                point.display()
            ),
        )),
    }
}
