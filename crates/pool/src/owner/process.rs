//! Processes, by a descriptor that goes on meaning the same one.
//!
//! Unsafe because pidfd_open is a plain system call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::patience::{Patience, ask};
use super::socket;

/// A descriptor of a process. The number of a dead process is given to a new one; this never is (O7).
#[derive(Clone, Debug)]
pub struct PidFd(Arc<OwnedFd>);

/// Who makes a call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its process id, as the owner sees it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The process itself.
    pub process: PidFd,
    /// The connection it calls on; no other one has this number.
    pub connection: u64,
}

/// A client whose connection has ended.
#[derive(Debug)]
pub struct Parted<'a> {
    /// Whose it was.
    pub caller: &'a Caller,
    /// Whether its process had no other connection then.
    pub was_last: bool,
    /// Becomes readable when we shall stop.
    pub(super) stop: &'a OwnedFd,
}

/// Connections there have been.
static CONNECTIONS: AtomicU64 = AtomicU64::new(0);

impl PidFd {
    /// The process that has the number `pid` now.
    ///
    /// # Errors
    /// What the system says: there may be no such process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        // SAFETY: no pointer is passed.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the kernel has just made this descriptor for us, close-on-exec.
        Ok(Self(Arc::new(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// The process at the other end of `socket`, which had the number `pid` when it connected or began to listen.
    pub(super) fn of_peer(socket: BorrowedFd<'_>, pid: u32) -> io::Result<Self> {
        match socket::peer_process(socket) {
            Ok(fd) => Ok(Self(Arc::new(fd))),
            // An older kernel: by number, which is sound as long as the peer has not ended in between.
            Err(e) if e.raw_os_error() == Some(libc::ENOPROTOOPT) => Self::open(pid),
            Err(e) => Err(e),
        }
    }

    /// Whether the process has not ended. One that has ended holds no mapping any more, reaped or not; a child that
    /// it forked is another process.
    pub fn is_alive(&self) -> bool {
        let mut asked = [ask(self, libc::POLLIN)];
        // If the kernel cannot tell, nothing of the process may be reused: alive.
        !Patience::none().wait(&mut asked).unwrap_or(false)
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Parted<'_> {
    /// Whether its process ends within `limit`. A killed process closes its sockets before it has ended: who is told
    /// of the one and means the other asks with a second to spare. An owner that is being stopped waits no longer (O4).
    pub fn ends_within(&self, limit: Duration) -> bool {
        let _ = Patience::of(limit).wait(&mut [ask(&self.caller.process, libc::POLLIN), ask(self.stop, libc::POLLIN)]);
        !self.caller.process.is_alive()
    }
}

impl Caller {
    /// Who is at the other end of `socket`.
    pub(super) fn of(socket: BorrowedFd<'_>) -> io::Result<Self> {
        let peer = socket::peer(socket)?;
        let process = PidFd::of_peer(socket, peer.pid)?;
        Ok(Self { pid: peer.pid, uid: peer.uid, process, connection: CONNECTIONS.fetch_add(1, Ordering::Relaxed) })
    }
}
