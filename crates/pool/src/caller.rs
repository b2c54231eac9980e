//! Processes, by a descriptor that goes on meaning the same one.
//!
//! Unsafe because pidfd_open is a plain system call.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;

use crate::time_limit::{TimeLimit, poll_entry};

/// A descriptor of a process. The number of a dead process is given to a new one; this never is (O7).
#[derive(Clone, Debug)]
pub struct PidFd(Arc<OwnedFd>);

/// The process that makes a call.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The process id, as the owner sees it.
    pub pid: u32,
    /// The user.
    pub uid: u32,
    /// The process.
    pub process: PidFd,
    /// The number of the connection, unique in the owner's process.
    pub connection: u64,
}

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

    /// Whether the process has not ended. One that has ended holds no mapping any more, reaped or not; a child that
    /// it forked is another process.
    pub fn is_alive(&self) -> bool {
        let mut asked = [poll_entry(self, libc::POLLIN)];
        // If the kernel cannot say, the process counts as living: nothing of it may be reused.
        !TimeLimit::none().wait(&mut asked).unwrap_or(false)
    }
}

impl From<OwnedFd> for PidFd {
    /// `process` is a descriptor of a process.
    fn from(process: OwnedFd) -> Self {
        Self(Arc::new(process))
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
