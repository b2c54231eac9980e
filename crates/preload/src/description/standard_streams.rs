//! Standard input, output and error. The C library's streams use them through the kernel, at its offset; so the offset
//! stays there, and a place is claimed by moving it.
//!
//! Unsafe because the kernel is called with the program's buffers.
#![allow(unsafe_code)]

use std::ffi::c_int;

use ferrite_memory::{pin, planted};

use super::{Description, STANDARD};
use crate::leased_file::ClaimedPlace;
use crate::real;

impl Description {
    /// Prepares for a copy, `fd`, to become standard input, output or error. Returns true if direct calls stay
    /// possible. An appending description cannot: a stream does not query the end.
    pub fn become_standard(&self, fd: c_int) -> bool {
        if self.appends() {
            self.surrender(fd);
        } else {
            self.move_to_kernel(fd, STANDARD);
        }
        self.is_standard()
    }

    pub fn is_standard(&self) -> bool {
        self.at.load(std::sync::atomic::Ordering::Relaxed) == STANDARD
    }

    /// Claims a place of `len` bytes at the kernel's offset, which moves over it.
    pub(super) fn claim_standard(&self, fd: c_int, len: usize) -> Option<ClaimedPlace> {
        if !self.is_standard() {
            return None;
        }
        let step = if planted!("preload: offset does not move over the claimed place") { 0 } else { len };
        // SAFETY: no pointer is passed.
        let moved = u64::try_from(unsafe { real::lseek(fd, step as i64, libc::SEEK_CUR) }).ok()?;
        let at = moved - step as u64;
        Some(ClaimedPlace { at, end: at + len as u64 })
    }

    /// Reads like read(2). Returns its result, and true if it went directly; `None` if the offset is not the kernel's.
    pub fn read_standard(&self, fd: c_int, into: &mut [u8]) -> Option<(isize, bool)> {
        let place = self.claim_standard(fd, into.len())?;
        let len = into.len();
        let mut read = || if self.reads { self.file.read(&pin(), place.at, into) } else { None };
        let directly = read().or_else(|| if self.may_retry_read(len) { read() } else { None });
        let read = match directly {
            Some(len) => (len as isize, true),
            // SAFETY: the buffer's own length.
            None => (unsafe { real::pread(fd, into.as_mut_ptr().cast(), len, place.at as i64) }, false),
        };
        give_back(fd, len - read.0.max(0) as usize);
        Some(read)
    }

    /// Writes `from` to its claimed place. Returns the result of write(2), and true if it went directly.
    pub(super) fn write_standard(&self, fd: c_int, place: &ClaimedPlace, from: &[u8]) -> (isize, bool) {
        let write = || if self.writes { self.file.write(&pin(), place.at, from) } else { None };
        let directly = write().or_else(|| if self.may_retry_write(fd, place.at, from.len()) { write() } else { None });
        let written = match directly {
            Some(len) => (len as isize, true),
            // SAFETY: the buffer's own length.
            None => (unsafe { real::pwrite(fd, from.as_ptr().cast(), from.len(), place.at as i64) }, false),
        };
        give_back(fd, from.len() - written.0.max(0) as usize);
        written
    }
}

/// Moves the kernel's offset back over `len` unused bytes.
fn give_back(fd: c_int, len: usize) {
    if len > 0 && !planted!("preload: offset stays behind unused bytes") {
        // SAFETY: no pointer is passed.
        unsafe { real::lseek(fd, -(len as i64), libc::SEEK_CUR) };
    }
}
