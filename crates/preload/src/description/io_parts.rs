//! Several buffers at the offset: they are one place of the file, whoever else uses the offset meanwhile.
//!
//! Unsafe because the program's buffers are copied from and to, and the kernel is called with them.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;

use ferrite_memory::pin;
use libc::iovec;

use super::Description;
use crate::entries::read_write::{MOST, may_be_memory};
use crate::leased_file::ClaimedPlace;
use crate::{real, size_limit};

/// Parts that are taken one by one.
pub const FEW: usize = 64;

/// The kernel's offset, to preadv2(2) and pwritev2(2).
const AT_OFFSET: i64 = -1;

/// Buffers of the program, as readv(2) and writev(2) take them, and flags, as preadv2(2) does.
pub struct IoParts<'a>(&'a [iovec], c_int);

impl<'a> IoParts<'a> {
    /// # Safety
    /// They are the program's, to be read into or written from by who is given this.
    pub unsafe fn new(parts: &'a [iovec]) -> Self {
        Self(parts, 0)
    }

    /// To be read or written by `flags`, where the kernel does it.
    pub fn by(self, flags: c_int) -> Self {
        Self(self.0, flags)
    }

    fn first(&self) -> *const iovec {
        self.0.as_ptr()
    }

    fn count(&self) -> c_int {
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

    /// readv(2) by the kernel, at its offset.
    pub fn read(&self, fd: c_int) -> isize {
        self.read_at(fd, AT_OFFSET)
    }

    /// preadv(2) by the kernel.
    pub fn read_at(&self, fd: c_int, at: i64) -> isize {
        let (first, count) = (self.first(), self.count());
        // SAFETY: who made them vouches for them.
        unsafe {
            match (at, self.1) {
                (AT_OFFSET, 0) => real::readv(fd, first, count),
                (_, 0) => real::preadv(fd, first, count, at),
                (_, flags) => real::preadv2(fd, first, count, at, flags),
            }
        }
    }

    /// writev(2) by the kernel, at its offset.
    pub fn write(&self, fd: c_int) -> isize {
        self.write_at(fd, AT_OFFSET)
    }

    /// pwritev(2) by the kernel.
    pub fn write_at(&self, fd: c_int, at: i64) -> isize {
        let (first, count) = (self.first(), self.count());
        // SAFETY: who made them vouches for them.
        unsafe {
            match (at, self.1) {
                (AT_OFFSET, 0) => real::writev(fd, first, count),
                (_, 0) => real::pwritev(fd, first, count, at),
                (_, flags) => real::pwritev2(fd, first, count, at, flags),
            }
        }
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
pub enum PartsWritten {
    Bytes(usize),
    /// The place is ours and the offset has moved on; so many bytes are there, whole parts.
    Claimed(ClaimedPlace, usize),
    /// Nothing was done.
    Not,
}

impl Description {
    /// As readv(2).
    pub fn read_parts(&self, parts: &IoParts<'_>) -> Option<usize> {
        loop {
            let at = self.offset()?;
            let len = self.read_parts_at(at, parts)?;
            if self.moves(at, at + len as u64) {
                return Some(len);
            }
        }
    }

    /// As preadv(2).
    pub fn read_parts_at(&self, at: u64, parts: &IoParts<'_>) -> Option<usize> {
        if !self.reads || !parts.are_few() {
            return None;
        }
        let read = parts.in_turn(0, |from, into, len| {
            // SAFETY: who made the parts vouches for them, where that can be memory.
            let room = may_be_memory(into.addr(), len).then(|| unsafe { slice::from_raw_parts_mut(into.cast(), len) });
            self.file.read(&pin(), at.checked_add(from)?, room?)
        });
        read.ok()
    }

    /// The same through the kernel.
    pub fn read_parts_by_kernel(&self, fd: c_int, parts: &IoParts<'_>) -> isize {
        loop {
            let Some(at) = self.offset() else { return parts.read(fd) };
            let read = parts.read_at(fd, at as i64);
            if self.moves(at, at + read.max(0) as u64) {
                return read;
            }
        }
    }

    /// As writev(2), where the description does not append.
    pub fn write_parts(&self, parts: &IoParts<'_>) -> PartsWritten {
        let Some(place) = self.claim(parts.len(), true) else { return PartsWritten::Not };
        match self.write_parts_at(place.at, parts) {
            Ok(len) => PartsWritten::Bytes(self.keep(&place, len)),
            Err(done) => PartsWritten::Claimed(place, done),
        }
    }

    /// As pwritev(2), where the description does not append; how many bytes of whole parts are there where it was not all
    /// done.
    pub fn write_parts_at(&self, at: u64, parts: &IoParts<'_>) -> Result<usize, usize> {
        if !self.writes {
            return Err(0);
        }
        parts.in_turn(0, |from, part, len| self.store_part(at.checked_add(from)?, part, len))
    }

    fn store_part(&self, at: u64, part: *const c_void, len: usize) -> Option<usize> {
        // SAFETY: who made the parts vouches for them, where that can be memory.
        let bytes = may_be_memory(part.addr(), len).then(|| unsafe { slice::from_raw_parts(part.cast(), len) });
        self.file.write(&pin(), at, bytes?)
    }

    /// Writes at the offset, or what is left at a place that was claimed: directly what can be if a lease can be had, else
    /// through the kernel. What writev(2) returns, and whether all went directly.
    pub fn write_parts_slowly(
        &self,
        fd: c_int,
        parts: &IoParts<'_>,
        claimed: Option<(ClaimedPlace, usize)>,
    ) -> (isize, bool) {
        let offset = || self.offset().filter(|_| parts.are_few());
        let tried_at = claimed.as_ref().map(|(place, _)| place.at).or_else(offset);
        let may_retry = tried_at.is_some_and(|at| self.may_retry_write(fd, at, parts.len()));
        let Some((place, done)) = claimed.or_else(|| self.claim(parts.len(), false).map(|place| (place, 0))) else {
            return (self.write_parts_at_kernels(fd, parts), false);
        };
        if may_retry {
            self.wait_for_end(place.at);
        }
        let written = self.write_rest(fd, parts, place.at, done, may_retry);
        self.keep(&place, written.0.max(0) as usize);
        written
    }

    /// Writes at the offset of the kernel, which has it or gets it, for what only it can refuse.
    fn write_parts_at_kernels(&self, fd: c_int, parts: &IoParts<'_>) -> isize {
        if !self.is_standard() {
            self.surrender(fd);
        }
        parts.write(fd)
    }

    /// Writes from byte `at` on what is left behind the first `done` bytes, which are whole parts.
    pub fn write_parts_at_slowly(&self, fd: c_int, parts: &IoParts<'_>, at: u64, done: usize) -> (isize, bool) {
        let may_retry = self.may_retry_write(fd, at, parts.len());
        self.write_rest(fd, parts, at, done, may_retry)
    }

    fn write_rest(&self, fd: c_int, parts: &IoParts<'_>, at: u64, done: usize, may_retry: bool) -> (isize, bool) {
        if done == 0 && !may_retry {
            return (parts.write_at(fd, at as i64), false);
        }
        let mut is_direct = true;
        let written = parts.in_turn(done, |from, part, len| {
            let at = at + from;
            self.store_part(at, part, len).or_else(|| {
                if from > 0 && at >= size_limit::file_bytes() {
                    // As a call of its own it would be refused, with a signal; what was written counts.
                    return None;
                }
                is_direct = false;
                let part = iovec { iov_base: part, iov_len: len };
                usize::try_from(IoParts(slice::from_ref(&part), parts.1).write_at(fd, at as i64)).ok()
            })
        });
        let (Ok(len) | Err(len)) = written;
        (if written == Err(0) { -1 } else { len as isize }, is_direct)
    }

    /// Writes by the kernel, as its flags have it: at a place that was claimed, or at the end.
    pub fn write_parts_by_kernel(&self, fd: c_int, parts: &IoParts<'_>) -> isize {
        if !self.appends() && parts.1 & libc::RWF_APPEND == 0 {
            let Some(place) = self.claim(parts.len(), false) else { return self.write_parts_at_kernels(fd, parts) };
            let written = parts.write_at(fd, place.at as i64);
            self.keep(&place, written.max(0) as usize);
            return written;
        }
        self.append_by_kernel(fd, || parts.write(fd))
    }
}
