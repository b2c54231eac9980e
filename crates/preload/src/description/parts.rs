//! Several buffers at the offset: they are one place of the file, whoever else uses the offset meanwhile.
//!
//! Unsafe because the program's buffers are copied from and to, and the kernel is called with them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;

use libc::iovec;

use super::{Description, Written};
use crate::entries::data::{MOST, may_be_memory};
use crate::file::Place;
use crate::real;

/// Buffers of the program, as readv(2) and writev(2) take them.
pub struct Parts<'a>(&'a [iovec]);

impl<'a> Parts<'a> {
    /// # Safety
    /// They are the program's, to be read into or written from by who is given this.
    pub unsafe fn new(parts: &'a [iovec]) -> Self {
        Self(parts)
    }

    fn first(&self) -> *const iovec {
        self.0.as_ptr()
    }

    pub fn count(&self) -> c_int {
        self.0.len() as c_int
    }

    /// Bytes that the kernel would take of them.
    pub fn len(&self) -> usize {
        self.0.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len)).min(MOST)
    }

    /// readv(2) by the kernel.
    pub fn read(&self, fd: c_int) -> isize {
        // SAFETY: who made them vouches for them.
        unsafe { real::readv(fd, self.first(), self.count()) }
    }

    /// writev(2) by the kernel.
    pub fn write(&self, fd: c_int) -> isize {
        // SAFETY: who made them vouches for them.
        unsafe { real::writev(fd, self.first(), self.count()) }
    }

    /// `each` part in turn, from which byte of all on, until one is not done in full; how many bytes. `None` where one
    /// cannot be done, or only the kernel can tell what is wrong with it.
    #[inline]
    fn in_turn(&self, mut each: impl FnMut(u64, *mut c_void, usize) -> Option<usize>) -> Option<usize> {
        let mut sum = 0;
        for part in self.0.iter().filter(|part| part.iov_len > 0) {
            let fits = may_be_memory(part.iov_base.addr(), part.iov_len) && part.iov_len <= MOST - sum;
            let done = if fits { each(sum as u64, part.iov_base, part.iov_len)? } else { return None };
            sum += done;
            if done < part.iov_len {
                break;
            }
        }
        Some(sum)
    }
}

impl Description {
    /// As readv(2).
    pub fn read_parts(&self, parts: &Parts<'_>) -> Option<usize> {
        loop {
            let at = self.offset().filter(|_| self.reads)?;
            let len = parts.in_turn(|from, into, len| {
                // SAFETY: who made the parts vouches for them.
                self.file.read(at.checked_add(from)?, unsafe { slice::from_raw_parts_mut(into.cast(), len) })
            })?;
            if self.moves(at, at + len as u64) {
                return Some(len);
            }
        }
    }

    /// The same through the kernel.
    pub fn read_parts_by_kernel(&self, fd: c_int, parts: &Parts<'_>) -> isize {
        loop {
            let Some(at) = self.offset() else { return parts.read(fd) };
            // SAFETY: who made the parts vouches for them.
            let read = unsafe { real::preadv(fd, parts.first(), parts.count(), at as i64) };
            if read <= 0 || self.moves(at, at + read as u64) {
                return read;
            }
        }
    }

    /// As writev(2), where the description does not append.
    pub fn write_parts(&self, parts: &Parts<'_>) -> Written {
        let Some(place) = self.claim(parts.len(), true) else { return Written::Not };
        match self.store_parts(&place, parts) {
            Some(len) => Written::Bytes(self.keep(&place, len)),
            None => Written::Claimed(place),
        }
    }

    fn store_parts(&self, place: &Place, parts: &Parts<'_>) -> Option<usize> {
        parts.in_turn(|from, part, len| {
            // SAFETY: who made the parts vouches for them.
            self.file.write(place.at + from, unsafe { slice::from_raw_parts(part.cast(), len) })
        })
    }

    /// Writes at the offset, or at `claimed`, once more directly if a lease can be had, else through the kernel; what
    /// writev(2) returns, and whether it went directly.
    pub fn write_parts_slowly(&self, fd: c_int, parts: &Parts<'_>, claimed: Option<Place>) -> (isize, bool) {
        let may_retry = self.writes && self.file.ask(self.need(claimed.as_ref(), parts.len()), parts.len());
        let Some(place) = claimed.or_else(|| self.claim(parts.len(), false)) else {
            self.surrender(fd);
            return (parts.write(fd), false);
        };
        if let Some(len) = may_retry.then(|| self.store_parts(&place, parts)).flatten() {
            return (self.keep(&place, len) as isize, true);
        }
        // SAFETY: who made the parts vouches for them.
        let written = unsafe { real::pwritev(fd, parts.first(), parts.count(), place.at as i64) };
        self.keep(&place, written.max(0) as usize);
        (written, false)
    }
}
