//! Several buffers at the offset: they are one place of the file, whoever else uses the offset meanwhile.
//!
//! Unsafe because the program's buffers are copied from and to, and the kernel is called with them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;

use libc::iovec;

use super::Description;
use crate::entries::data::{MOST, may_be_memory};
use crate::file::Place;
use crate::real;

/// Parts that are taken one by one.
pub const FEW: usize = 64;

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

    /// Whether they are taken one by one; longer lists are the kernel's.
    pub fn are_few(&self) -> bool {
        self.0.len() <= FEW
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

    /// `each` part in turn behind the first `done` bytes, from which byte of all on, until one is not done in full; how
    /// many bytes. An error where one cannot be done, or only the kernel can tell what is wrong with it: how many till there.
    #[inline]
    fn in_turn(
        &self,
        done: usize,
        mut each: impl FnMut(u64, *mut c_void, usize) -> Option<usize>,
    ) -> Result<usize, usize> {
        let mut sum = 0;
        for part in self.0.iter().filter(|part| part.iov_len > 0) {
            if sum < done {
                sum += part.iov_len;
                continue;
            }
            let done = each(sum as u64, part.iov_base, part.iov_len.min(MOST - sum)).ok_or(sum)?;
            sum += done;
            if done < part.iov_len {
                break;
            }
        }
        Ok(sum)
    }
}

/// What became of parts that were to be written at the offset.
pub enum Stored {
    Bytes(usize),
    /// The place is ours and the offset has moved on; so many bytes are there, whole parts.
    Claimed(Place, usize),
    /// Nothing was done.
    Not,
}

impl Description {
    /// As readv(2).
    pub fn read_parts(&self, parts: &Parts<'_>) -> Option<usize> {
        loop {
            let at = self.offset().filter(|_| self.reads)?;
            let read = parts.in_turn(0, |from, into, len| {
                // SAFETY: who made the parts vouches for them, where that can be memory.
                let room =
                    may_be_memory(into.addr(), len).then(|| unsafe { slice::from_raw_parts_mut(into.cast(), len) });
                self.file.read(at.checked_add(from)?, room?)
            });
            let len = read.ok()?;
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
    pub fn write_parts(&self, parts: &Parts<'_>) -> Stored {
        let Some(place) = self.claim(parts.len(), true) else { return Stored::Not };
        match parts.in_turn(0, |from, part, len| self.store_part(place.at + from, part, len)) {
            Ok(len) => Stored::Bytes(self.keep(&place, len)),
            Err(done) => Stored::Claimed(place, done),
        }
    }

    fn store_part(&self, at: u64, part: *const c_void, len: usize) -> Option<usize> {
        // SAFETY: who made the parts vouches for them, where that can be memory.
        let bytes = may_be_memory(part.addr(), len).then(|| unsafe { slice::from_raw_parts(part.cast(), len) });
        self.file.write(at, bytes?)
    }

    /// Writes at the offset, or what is left at a place that was claimed: directly what can be if a lease can be had, else
    /// through the kernel. What writev(2) returns, and whether all went directly.
    pub fn write_parts_slowly(&self, fd: c_int, parts: &Parts<'_>, claimed: Option<(Place, usize)>) -> (isize, bool) {
        let offset = || self.offset().filter(|_| parts.are_few());
        let tried_at = claimed.as_ref().map(|(place, _)| place.at).or_else(offset);
        let may_retry = tried_at.is_some_and(|at| self.asks_to_write(at, parts.len()));
        let Some((place, done)) = claimed.or_else(|| self.claim(parts.len(), false).map(|place| (place, 0))) else {
            if !self.is_standard() {
                self.surrender(fd);
            }
            return (parts.write(fd), false);
        };
        if done == 0 && !may_retry {
            // SAFETY: who made the parts vouches for them.
            let written = unsafe { real::pwritev(fd, parts.first(), parts.count(), place.at as i64) };
            self.keep(&place, written.max(0) as usize);
            return (written, false);
        }
        if may_retry {
            self.let_end_come(place.at);
        }
        let mut is_direct = true;
        let written = parts.in_turn(done, |from, part, len| {
            let at = place.at + from;
            self.store_part(at, part, len).or_else(|| {
                is_direct = false;
                // SAFETY: the program's own arguments.
                usize::try_from(unsafe { real::pwrite(fd, part, len, at as i64) }).ok()
            })
        });
        let (Ok(len) | Err(len)) = written;
        self.keep(&place, len);
        (if written == Err(0) { -1 } else { len as isize }, is_direct)
    }
}
