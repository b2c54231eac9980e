//! SQLite's locks on a database file, all taken at once: then no program reads or writes the file.
//!
//! Unsafe, because the standard library has no lock on a range of a file.
#![allow(unsafe_code, reason = "a lock on a range of a file, for which std has no word")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// The bytes that SQLite locks: pending, reserved, and 510 shared ones.
const FIRST: i64 = 0x4000_0000;
const BYTES: i64 = 512;

/// Locks `file` for this open file alone, until the file is closed. An error of kind `WouldBlock` says that another program
/// uses the database.
pub fn exclude_all(file: &File) -> io::Result<()> {
    // SAFETY: the structure is plain numbers, for which zeros are values.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as i16;
    range.l_whence = libc::SEEK_SET as i16;
    range.l_start = FIRST;
    range.l_len = BYTES;
    // SAFETY: the descriptor is open, and the structure outlives the call.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &range) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
