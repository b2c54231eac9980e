//! A descriptor opened and closed by system calls alone, as a forked child must.
//!
//! Unsafe: those system calls.
#![allow(unsafe_code, reason = "descriptors without the standard library, for a forked child")]

use std::ffi::CStr;
use std::os::fd::RawFd;

use super::child::{ChildResult, errno};

/// A descriptor that is closed when dropped.
#[derive(Debug)]
pub(super) struct ChildFd(RawFd);

impl ChildFd {
    /// Opens `path`.
    pub fn new(path: &CStr, flags: i32) -> Result<Self, i32> {
        // SAFETY: the path is a C string.
        Self::checked(unsafe { libc::open(path.as_ptr(), flags | libc::O_CLOEXEC) })
    }

    /// Opens a socket to the kernel's generic netlink.
    pub fn netlink() -> Result<Self, i32> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: the call uses numbers only and returns a descriptor.
        Self::checked(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) })
    }

    fn checked(fd: RawFd) -> Result<Self, i32> {
        if fd < 0 { Err(errno()) } else { Ok(Self(fd)) }
    }

    /// Returns the number of the descriptor.
    pub fn number(&self) -> RawFd {
        self.0
    }

    /// Makes an ioctl without an argument.
    pub fn control(&self, request: libc::Ioctl) -> ChildResult {
        // SAFETY: such requests read and write no memory of this process.
        answer(unsafe { libc::ioctl(self.0, request, 0) })
    }

    /// Makes the data written through the page cache durable.
    pub fn flush(&self) -> ChildResult {
        // SAFETY: the descriptor is open.
        answer(unsafe { libc::fsync(self.0) })
    }
}

impl Drop for ChildFd {
    fn drop(&mut self) {
        // SAFETY: this value owns the descriptor and closes it once.
        unsafe { libc::close(self.0) };
    }
}

/// Sets the size of the file at `path`, which is not opened for that.
pub(super) fn set_size(path: &CStr, bytes: u64) -> ChildResult {
    let Ok(bytes) = libc::off_t::try_from(bytes) else { return Err(libc::EFBIG) };
    // SAFETY: the path is a C string.
    answer(unsafe { libc::truncate(path.as_ptr(), bytes) })
}

/// Unmounts the unused file system at `path`, a path that leads through no link at its end.
pub(super) fn unmount_unused(path: &CStr) -> ChildResult {
    // SAFETY: the path is a C string.
    answer(unsafe { libc::umount2(path.as_ptr(), libc::UMOUNT_NOFOLLOW) })
}

/// Converts the return value of a system call into a result.
pub(super) fn answer(value: i32) -> ChildResult {
    if value < 0 { Err(errno()) } else { Ok(value) }
}
