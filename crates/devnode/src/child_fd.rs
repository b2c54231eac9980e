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

    /// A socket to the kernel's generic netlink.
    pub fn netlink() -> Result<Self, i32> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: takes numbers and makes a descriptor.
        Self::checked(unsafe { libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_GENERIC) })
    }

    fn checked(fd: RawFd) -> Result<Self, i32> {
        if fd < 0 { Err(errno()) } else { Ok(Self(fd)) }
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.0
    }

    /// An ioctl without an argument.
    pub fn control(&self, request: libc::Ioctl) -> ChildResult {
        // SAFETY: such requests read and write no memory of ours.
        answer(unsafe { libc::ioctl(self.0, request, 0) })
    }

    /// Makes what was written through the page cache durable.
    pub fn flush(&self) -> ChildResult {
        // SAFETY: takes a descriptor that is open.
        answer(unsafe { libc::fsync(self.0) })
    }
}

impl Drop for ChildFd {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once.
        unsafe { libc::close(self.0) };
    }
}

/// A system call's answer.
pub(super) fn answer(value: i32) -> ChildResult {
    if value < 0 { Err(errno()) } else { Ok(value) }
}
