//! Several buffers at the offset: they are one place of the file, also while other threads use the offset.
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

/// The most parts that are handled one by one.
pub const FEW: usize = 64;

/// Stands for the kernel's offset in preadv2(2) and pwritev2(2).
const AT_OFFSET: i64 = -1;

/// Buffers of the program, as readv(2) and writev(2) take them, and flags, as preadv2(2) takes them.
pub struct IoParts<'a>(&'a [iovec], c_int);

impl<'a> IoParts<'a> {
    /// # Safety
    /// The buffers are the program's, readable or writable as the user of the parts needs.
    pub unsafe fn new(parts: &'a [iovec]) -> Self {
        Self(parts, 0)
    }

    /// Returns the parts with `flags` for the kernel.
    pub fn by(self, flags: c_int) -> Self {
        Self(self.0, flags)
    }

    fn first(&self) -> *const iovec {
        self.0.as_ptr()
    }

    fn count(&self) -> c_int {
        self.0.len() as c_int
    }

    /// Returns true if the parts are handled one by one; longer lists are the kernel's.
    pub fn are_few(&self) -> bool {
        self.0.len() <= FEW
    }

    /// Returns the bytes that the kernel would handle.
    pub fn len(&self) -> usize {
        self.0.iter().fold(0, |sum: usize, part| sum.saturating_add(part.iov_len)).min(MOST)
    }

    /// Reads by the kernel at its offset, like readv(2).
    pub fn read(&self, fd: c_int) -> isize {
        self.read_at(fd, AT_OFFSET)
    }

    /// Reads by the kernel, like preadv(2).
    pub fn read_at(&self, fd: c_int, at: i64) -> isize {
        let (first, count) = (self.first(), self.count());
        // SAFETY: `new` requires valid buffers.
        unsafe {
            match (at, self.1) {
                (AT_OFFSET, 0) => real::readv(fd, first, count),
                (_, 0) => real::preadv(fd, first, count, at),
                (_, flags) => real::preadv2(fd, first, count, at, flags),
            }
        }
    }

    /// Writes by the kernel at its offset, like writev(2).
    pub fn write(&self, fd: c_int) -> isize {
        self.write_at(fd, AT_OFFSET)
    }

    /// Writes by the kernel, like pwritev(2).
    pub fn write_at(&self, fd: c_int, at: i64) -> isize {
        let (first, count) = (self.first(), self.count());
        // SAFETY: `new` requires valid buffers.
        unsafe {
            match (at, self.1) {
                (AT_OFFSET, 0) => real::writev(fd, first, count),
                (_, 0) => real::pwritev(fd, first, count, at),
                (_, flags) => real::pwritev2(fd, first, count, at, flags),
            }
        }
    }

    /// Calls `each` for the parts behind the first `done` bytes, with the offset of each, until one is not done in
    /// full. Returns the number of bytes; an error with the bytes so far if a part fails, or only the kernel can report
    /// its fault.
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

/// The result of a write of parts at the offset.
pub enum PartsWritten {
    Bytes(usize),
    /// The place is claimed and the offset has moved on; this many bytes are written, whole parts.
    Claimed(ClaimedPlace, usize),
    /// Nothing was done.
    Not,
}

impl Description {
    /// Reads at the offset, like readv(2).
    pub fn read_parts(&self, parts: &IoParts<'_>) -> Option<usize> {
        loop {
            let at = self.offset()?;
            let len = self.read_parts_at(at, parts)?;
            if self.moves(at, at + len as u64) {
                return Some(len);
            }
        }
    }

    /// Reads at `at`, like preadv(2).
    pub fn read_parts_at(&self, at: u64, parts: &IoParts<'_>) -> Option<usize> {
        if !self.reads || !parts.are_few() {
            return None;
        }
        let read = parts.in_turn(0, |from, into, len| {
            // SAFETY: `IoParts::new` requires valid buffers, if this can be memory.
            let room = may_be_memory(into.addr(), len).then(|| unsafe { slice::from_raw_parts_mut(into.cast(), len) });
            self.file.read(&pin(), at.checked_add(from)?, room?)
        });
        read.ok()
    }

    /// Reads at the offset through the kernel.
    pub fn read_parts_by_kernel(&self, fd: c_int, parts: &IoParts<'_>) -> isize {
        loop {
            let Some(at) = self.offset() else { return parts.read(fd) };
            let read = parts.read_at(fd, at as i64);
            if self.moves(at, at + read.max(0) as u64) {
                return read;
            }
        }
    }

    /// Writes at the offset, like writev(2), if the description does not append.
    pub fn write_parts(&self, parts: &IoParts<'_>) -> PartsWritten {
        let Some(place) = self.claim(parts.len(), true) else { return PartsWritten::Not };
        match self.write_parts_at(place.at, parts) {
            Ok(len) => PartsWritten::Bytes(self.keep(&place, len)),
            Err(done) => PartsWritten::Claimed(place, done),
        }
    }

    /// Writes at `at`, like pwritev(2), if the description does not append. The error has the bytes of whole parts that
    /// were written.
    pub fn write_parts_at(&self, at: u64, parts: &IoParts<'_>) -> Result<usize, usize> {
        if !self.writes {
            return Err(0);
        }
        parts.in_turn(0, |from, part, len| self.store_part(at.checked_add(from)?, part, len))
    }

    fn store_part(&self, at: u64, part: *const c_void, len: usize) -> Option<usize> {
        // SAFETY: `IoParts::new` requires valid buffers, if this can be memory.
        let bytes = may_be_memory(part.addr(), len).then(|| unsafe { slice::from_raw_parts(part.cast(), len) });
        self.file.write(&pin(), at, bytes?)
    }

    /// Writes at the offset, or the rest at a claimed place: directly if there is a lease, otherwise through the
    /// kernel. Returns the result of writev(2), and true if all went directly.
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

    /// Writes at the kernel's offset, for errors that only the kernel can report.
    fn write_parts_at_kernels(&self, fd: c_int, parts: &IoParts<'_>) -> isize {
        if !self.is_standard() {
            self.surrender(fd);
        }
        parts.write(fd)
    }

    /// Writes the rest behind the first `done` bytes, which are whole parts, from byte `at` on.
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
                    // As a call of its own it would be refused, with a signal; the written bytes count.
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

    /// Writes by the kernel with its flags: at a claimed place, or at the end.
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
