//! An open file description: what `dup` shares, its offset first of all (LD2).
//!
//! The offset is one word, so that nothing is locked: a read copies and then moves it on, a write claims its place and
//! then copies there. Who loses a race begins again. Only those wait for each other who tell the kernel of it, or have the
//! kernel move its own.
//!
//! Unsafe because the kernel is called with the program's own pointers.
#![allow(unsafe_code)]

mod io_parts;
mod offset_transfer;
mod standard_streams;
mod table_entries;
#[cfg(test)]
mod tests;

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ferrite_memory::{Pin, pin};

use crate::leased_file::{ClaimedPlace, LeaseNeed, LeasedFile, wait_briefly};
use crate::{deferred_drop, known_files, real};

pub use io_parts::{FEW, IoParts, PartsWritten};

/// The offset is the kernel's.
const KERNELS: u64 = u64::MAX;
/// The offset is in the kernel, for standard input, output or error to be read and written by it; nobody else has it.
const STANDARD: u64 = KERNELS - 1;
const OFFSET_MAX: u64 = i64::MAX as u64;

pub struct Description {
    pub file: Arc<LeasedFile>,
    /// The offset in bytes, or [`KERNELS`], or [`STANDARD`].
    at: AtomicU64,
    /// A thread is setting the kernel's offset.
    is_setting_offset: AtomicBool,
    /// Where a seek put the offset last: what lies between that and the offset was claimed.
    sought: AtomicU64,
    appends: AtomicBool,
    /// Entries of the table that it has.
    entries: AtomicUsize,
    reads: bool,
    writes: bool,
}

/// What became of a write at the offset.
pub enum OffsetWrite {
    Bytes(usize),
    /// The place is ours and the offset has moved on; the bytes may be there in part.
    Claimed(ClaimedPlace),
    /// Nothing was done.
    Not,
}

impl Description {
    /// Of a file that was just opened with `flags`.
    pub fn new(file: Arc<LeasedFile>, flags: c_int) -> Self {
        let access = flags & libc::O_ACCMODE;
        Self {
            file,
            at: AtomicU64::new(0),
            is_setting_offset: AtomicBool::new(false),
            sought: AtomicU64::new(0),
            appends: AtomicBool::new(flags & libc::O_APPEND != 0),
            entries: AtomicUsize::new(0),
            reads: access != libc::O_WRONLY,
            writes: access != libc::O_RDONLY,
        }
    }

    /// The flags were set anew.
    pub fn set_flags(&self, flags: c_int) {
        if self.is_gate() {
            return;
        }
        self.appends.store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
    }

    pub fn appends(&self) -> bool {
        self.appends.load(Ordering::Relaxed)
    }

    /// The same, for a write by `fd` to a place that is told: where others have the descriptor they may have set its flags.
    #[inline(always)]
    pub fn learns_to_append(&self, fd: c_int) -> bool {
        if self.at.load(Ordering::Relaxed) == KERNELS {
            self.learn_flags(fd);
        }
        self.appends()
    }

    #[cold]
    fn learn_flags(&self, fd: c_int) {
        // SAFETY: no pointer is passed.
        let flags = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
        if flags >= 0 {
            self.set_flags(flags);
        }
    }

    /// Whether it has its offset here.
    fn offset(&self) -> Option<u64> {
        Some(self.at.load(Ordering::Relaxed)).filter(|at| *at <= OFFSET_MAX)
    }

    fn moves(&self, from: u64, to: u64) -> bool {
        self.at.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// As read(2).
    #[inline(always)]
    pub fn read(&self, pin: &Pin, into: &mut [u8]) -> Option<usize> {
        loop {
            let at = self.offset().filter(|_| self.reads)?;
            let len = self.file.read(pin, at, into)?;
            if self.moves(at, at + len as u64) {
                return Some(len);
            }
        }
    }

    /// As pread(2).
    #[inline(always)]
    pub fn read_at(&self, pin: &Pin, at: u64, into: &mut [u8]) -> Option<usize> {
        if self.reads { self.file.read(pin, at, into) } else { None }
    }

    /// As write(2).
    #[inline(always)]
    pub fn write(&self, pin: &Pin, fd: c_int, from: &[u8]) -> OffsetWrite {
        if self.appends() {
            let Some(before) = self.offset().filter(|_| self.writes) else { return OffsetWrite::Not };
            let Some((at, len)) = self.file.append(from) else { return OffsetWrite::Not };
            self.arrives(fd, before, at + len as u64);
            return OffsetWrite::Bytes(len);
        }
        let Some(place) = self.claim(from.len(), true) else { return OffsetWrite::Not };
        match self.file.write(pin, place.at, from) {
            Some(len) => OffsetWrite::Bytes(self.keep(&place, len)),
            None => OffsetWrite::Claimed(place),
        }
    }

    /// As pwrite(2), which appends where the description does.
    #[inline(always)]
    pub fn write_at(&self, pin: &Pin, fd: c_int, at: u64, from: &[u8]) -> Option<usize> {
        // Refused where it would end too far, also where it is appended.
        at.checked_add(from.len() as u64).filter(|end| self.writes && *end <= OFFSET_MAX)?;
        if !self.learns_to_append(fd) {
            return self.file.write(pin, at, from);
        }
        if self.appends_with_others() { None } else { self.file.append(from).map(|(_, len)| len) }
    }

    /// Whether it appends where the kernel has the offset: others, as streams, append there too, and go by the end that the
    /// kernel knows.
    fn appends_with_others(&self) -> bool {
        self.appends() && !self.has_offset()
    }

    /// Moves the offset over a place of `len` bytes, which is the caller's from now on; only `if_leased`, or always.
    fn claim(&self, len: usize, if_leased: bool) -> Option<ClaimedPlace> {
        loop {
            let at = self.offset().filter(|_| self.writes && (!if_leased || self.file.is_leased()))?;
            let end = at.checked_add(len as u64).filter(|end| *end <= OFFSET_MAX)?;
            if self.moves(at, end) {
                return Some(ClaimedPlace { at, end });
            }
        }
    }

    /// `len` bytes of the place were written: the offset goes back over the others, unless it has moved since.
    fn keep(&self, place: &ClaimedPlace, len: usize) -> usize {
        let end = place.at + len as u64;
        if end != place.end {
            self.moves(place.end, end);
        }
        len
    }

    /// An append by `fd`, which found the offset at `before`, ended at `end`: the offset is there, unless another append that
    /// went behind it was faster.
    pub fn arrives(&self, fd: c_int, before: u64, end: u64) {
        loop {
            let now = self.at.load(Ordering::Relaxed);
            if now > OFFSET_MAX {
                return Self::arrives_late(fd, end);
            }
            let is_behind = now > end && now != before && now != self.sought.load(Ordering::Relaxed);
            if is_behind || self.moves(now, end) {
                return;
            }
        }
    }

    /// The same where the offset was given to the kernel meanwhile.
    #[cold]
    fn arrives_late(fd: c_int, end: u64) {
        let end = end as i64;
        if (0..end).contains(&real::moved(fd, 0, libc::SEEK_CUR)) {
            real::moved(fd, end, libc::SEEK_SET);
        }
    }

    /// As ftruncate(2), by `fd`. The kernel knows the end before it is told to forget the file (FG8).
    pub fn resize(&self, fd: c_int, len: i64) -> Option<()> {
        let len = u64::try_from(len).ok().filter(|_| self.writes)?;
        self.sought.store(OFFSET_MAX, Ordering::Relaxed);
        if self.file.is_leased() {
            known_files::query_size(fd);
        }
        self.file.resize(len)
    }

    /// Moves the offset as lseek(2) does; `None` where that is the kernel's to do or to refuse.
    pub fn seek(&self, by: i64, whence: c_int) -> Option<u64> {
        loop {
            let at = self.offset()?;
            let base = match whence {
                libc::SEEK_SET => 0,
                libc::SEEK_CUR => at,
                libc::SEEK_END => self.file.size()?,
                _ => return None,
            };
            let to = base.checked_add_signed(by).filter(|to| *to <= OFFSET_MAX)?;
            if self.moves(at, to) {
                if to != at {
                    self.sought.store(to, Ordering::Relaxed);
                }
                return Some(to);
            }
        }
    }

    /// Gives the offset to the kernel for good, by `fd`.
    pub fn surrender(&self, fd: c_int) {
        #[cfg(test)]
        if self.is_standard() && tests::is_planted(tests::Bug::KeptByChildren) {
            return;
        }
        let had_offset = self.has_offset();
        self.move_to_kernel(fd, KERNELS);
        self.moves(STANDARD, KERNELS);
        // Who appends is pinned until the offset has arrived. A signal handler would wait for what it interrupted (LD5).
        if had_offset && self.appends() && pin().seat().is_some() {
            deferred_drop::wait();
        }
        if had_offset || self.file.is_leased() || self.appends() {
            known_files::query_size(fd);
        }
    }

    pub fn has_offset(&self) -> bool {
        self.offset().is_some()
    }

    /// Whether a read of `len` bytes that was tried directly is to be tried so once more.
    pub fn may_retry_read(&self, len: usize) -> bool {
        self.reads && self.file.ask(LeaseNeed::Read, len, &|| ())
    }

    /// Whether a write of `len` bytes at `at` that was tried directly is to be tried so once more.
    pub fn may_retry_write(&self, fd: c_int, at: u64, len: usize) -> bool {
        let need = self.need_to(at.saturating_add(len as u64));
        self.writes && !self.appends_with_others() && self.file.ask(need, len, &|| known_files::query_end(fd))
    }

    /// Reads through the kernel at the offset.
    ///
    /// # Safety
    /// As for read(2).
    pub unsafe fn read_by_kernel(&self, fd: c_int, into: *mut c_void, len: usize) -> isize {
        loop {
            // SAFETY: as the caller has it.
            let Some(at) = self.offset() else { return unsafe { real::read(fd, into, len) } };
            // SAFETY: as the caller has it.
            let read = unsafe { real::pread(fd, into, len, at as i64) };
            // What was read after the offset was moved may be another file's.
            if self.moves(at, at + read.max(0) as u64) {
                return read;
            }
        }
    }

    /// Writes at the offset, or at `claimed`, once more directly if a lease can be had, else through the kernel.
    ///
    /// # Safety
    /// As for write(2), and `from` is what the bytes are.
    pub unsafe fn write_slowly(&self, fd: c_int, from: &[u8], claimed: Option<ClaimedPlace>) -> (isize, bool) {
        let standard = if claimed.is_none() { self.claim_standard(fd, from.len()) } else { None };
        if let Some(place) = standard {
            return self.write_standard(fd, &place, from);
        }
        let tried_at = claimed.as_ref().map(|place| place.at).or_else(|| self.offset());
        let may_retry = tried_at.is_some_and(|at| self.may_retry_write(fd, at, from.len()));
        if may_retry
            && self.appends()
            && let OffsetWrite::Bytes(len) = self.write(&pin(), fd, from)
        {
            return (len as isize, true);
        }
        let bytes = from.as_ptr().cast();
        if self.appends() {
            // SAFETY: as the caller has it.
            return (self.append_by_kernel(fd, || unsafe { real::write(fd, bytes, from.len()) }), false);
        }
        let Some(place) = claimed.or_else(|| self.claim(from.len(), false)) else {
            self.surrender(fd);
            // SAFETY: as the caller has it.
            return (unsafe { real::write(fd, bytes, from.len()) }, false);
        };
        if may_retry {
            self.wait_for_end(place.at);
        }
        if let Some(len) = may_retry.then(|| self.file.write(&pin(), place.at, from)).flatten() {
            return (self.keep(&place, len) as isize, true);
        }
        // SAFETY: as the caller has it.
        let written = unsafe { real::pwrite(fd, bytes, from.len(), place.at as i64) };
        self.keep(&place, written.max(0) as usize);
        (written, false)
    }

    /// Appends by `call` of the kernel, which leaves its own offset at the end.
    fn append_by_kernel(&self, fd: c_int, call: impl FnOnce() -> isize) -> isize {
        self.by_kernel(|| {
            let before = self.offset();
            // Where the append ends is told by the end that the kernel knows: nothing is done in between.
            known_files::query_size(fd);
            let written = call();
            if let Some(before) = before.filter(|_| written > 0) {
                self.arrives(fd, before, real::moved(fd, 0, libc::SEEK_CUR) as u64);
            }
            written
        })
    }

    /// Lets others who claimed what lies between the end of the file and `at` write that, but does not wait for long.
    fn wait_for_end(&self, at: u64) {
        let sought = self.sought.load(Ordering::Relaxed);
        let is_behind = || self.file.size().is_some_and(|size| (sought..at).contains(&size));
        // A signal handler would wait for what it interrupted (LD5).
        if is_behind() && pin().seat().is_some() {
            wait_briefly(|| !is_behind());
        }
    }

    /// What a write up to `end` needs.
    pub fn need_to(&self, end: u64) -> LeaseNeed {
        let is_within = !self.appends() && self.file.size().is_some_and(|size| end <= size);
        if is_within { LeaseNeed::Write } else { LeaseNeed::Append }
    }
}
