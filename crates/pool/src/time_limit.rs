//! Time limits of waits for other processes, without a clock.
//!
//! The kernel's ppoll takes the time it waited off the limit it was given, so a limit passed on from wait to wait
//! bounds their sum, and a peer that sends a byte now and then gains nothing.
//!
//! Unsafe because the C library hides that the limit is written back; the system call itself is made here.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::time::Duration;

/// What is left of a time limit; `None` is no limit.
#[derive(Clone, Copy, Debug)]
pub struct TimeLimit(Option<libc::timespec>);

/// What to wait for on `what`.
pub fn poll_entry(what: &impl AsFd, events: libc::c_short) -> libc::pollfd {
    libc::pollfd { fd: what.as_fd().as_raw_fd(), events, revents: 0 }
}

/// Which way bytes go through a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From it.
    Read,
    /// To it.
    Write,
}

/// Whether `what` can be read or written within `limit` without waiting, be it that the other side has gone. A file
/// always can.
///
/// # Errors
/// What the system says.
pub fn ready_within(what: &impl AsFd, way: Way, limit: Duration) -> io::Result<bool> {
    let events = if way == Way::Read { libc::POLLIN } else { libc::POLLOUT };
    TimeLimit::of(limit).wait(&mut [poll_entry(what, events)])
}

impl TimeLimit {
    /// As long as it takes.
    pub const fn forever() -> Self {
        Self(None)
    }

    /// Returns a limit that has already passed: a wait only looks.
    pub const fn none() -> Self {
        Self(Some(libc::timespec { tv_sec: 0, tv_nsec: 0 }))
    }

    /// Returns a limit of `limit` for all waits together.
    pub fn of(limit: Duration) -> Self {
        let tv_sec = libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX);
        Self(Some(libc::timespec { tv_sec, tv_nsec: limit.subsec_nanos().into() }))
    }

    /// Waits until one of the descriptors in `asked` is ready. Returns false if the limit passed first.
    ///
    /// # Errors
    /// The errors of ppoll.
    pub fn wait(&mut self, asked: &mut [libc::pollfd]) -> io::Result<bool> {
        let limit = self.0.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        loop {
            // SAFETY: `asked` is a live slice of that length, the limit null or a live timespec; there is no mask.
            let ready = unsafe {
                libc::syscall(libc::SYS_ppoll, asked.as_mut_ptr(), asked.len(), limit, ptr::null::<libc::sigset_t>(), 0)
            };
            match ready {
                0 => return Ok(false),
                1.. => return Ok(true),
                // What was waited before a signal has been taken off the limit too.
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => return Err(io::Error::last_os_error()),
            }
        }
    }
}
