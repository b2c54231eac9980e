//! An open file description: the state that `dup` shares, above all its offset (LD2).
//!
//! The offset is one word without a lock: a read copies and then advances it, a write claims its place and then copies
//! there. A thread that loses a race starts over. Only threads that set the kernel's offset, or have the kernel move
//! its own, wait for each other.
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

use ferrite_memory::{Pin, pin, planted};

use crate::leased_file::{ClaimedPlace, LeaseNeed, LeasedFile, wait_briefly};
use crate::{deferred_drop, known_files, real};

pub use io_parts::{FEW, IoParts, PartsWritten};

/// The kernel has the offset.
const KERNELS: u64 = u64::MAX;
/// The kernel has the offset of standard input, output or error, and no other process has the descriptor.
const STANDARD: u64 = KERNELS - 1;
const OFFSET_MAX: u64 = i64::MAX as u64;

pub struct Description {
    pub file: Arc<LeasedFile>,
    /// The offset in bytes, or [`KERNELS`], or [`STANDARD`].
    at: AtomicU64,
    /// True while a thread sets the kernel's offset.
    is_setting_offset: AtomicBool,
    /// The offset after the last seek: the range from it to the offset was claimed.
    sought: AtomicU64,
    appends: AtomicBool,
    /// Entries of the table that refer to this description.
    entries: AtomicUsize,
    reads: bool,
    writes: bool,
}

/// The result of a write at the offset.
pub enum OffsetWrite {
    Bytes(usize),
    /// The place is claimed and the offset has moved on; the bytes may be written in part.
    Claimed(ClaimedPlace),
    /// Nothing was done.
    Not,
}

impl Description {
    /// Returns the description of a file that was just opened with `flags`.
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

    /// Stores new flags.
    pub fn set_flags(&self, flags: c_int) {
        if self.is_gate() {
            return;
        }
        self.appends.store(flags & libc::O_APPEND != 0, Ordering::Relaxed);
    }

    pub fn appends(&self) -> bool {
        self.appends.load(Ordering::Relaxed)
    }

    /// Returns true if a write by `fd` at a given place appends. If other processes have the descriptor, its flags are
    /// read again.
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

    /// Returns the offset, if this library has it.
    fn offset(&self) -> Option<u64> {
        Some(self.at.load(Ordering::Relaxed)).filter(|at| *at <= OFFSET_MAX)
    }

    fn moves(&self, from: u64, to: u64) -> bool {
        self.at.compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Reads at the offset, like read(2).
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

    /// Reads at `at`, like pread(2).
    #[inline(always)]
    pub fn read_at(&self, pin: &Pin, at: u64, into: &mut [u8]) -> Option<usize> {
        if self.reads { self.file.read(pin, at, into) } else { None }
    }

    /// Writes at the offset, like write(2).
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

    /// Writes at `at`, like pwrite(2), which appends if the description does.
    #[inline(always)]
    pub fn write_at(&self, pin: &Pin, fd: c_int, at: u64, from: &[u8]) -> Option<usize> {
        // A write that would end too far is refused, also if it appends.
        at.checked_add(from.len() as u64).filter(|end| self.writes && *end <= OFFSET_MAX)?;
        if !self.learns_to_append(fd) {
            return self.file.write(pin, at, from);
        }
        if self.appends_with_others() { None } else { self.file.append(from).map(|(_, len)| len) }
    }

    /// Returns true if it appends and the kernel has the offset: others, such as streams, append there too, and rely on
    /// the kernel's end of the file.
    fn appends_with_others(&self) -> bool {
        self.appends() && !self.has_offset()
    }

    /// Moves the offset over a place of `len` bytes, which the caller owns from then on; with `if_leased` only if there
    /// is a lease.
    fn claim(&self, len: usize, if_leased: bool) -> Option<ClaimedPlace> {
        loop {
            let at = self.offset().filter(|_| self.writes && (!if_leased || self.file.is_leased()))?;
            let end = at.checked_add(len as u64).filter(|end| *end <= OFFSET_MAX)?;
            if self.moves(at, end) {
                return Some(ClaimedPlace { at, end });
            }
        }
    }

    /// Moves the offset back over unwritten bytes of the place, unless it has moved since. Returns `len`.
    fn keep(&self, place: &ClaimedPlace, len: usize) -> usize {
        let end = place.at + len as u64;
        if end != place.end {
            self.moves(place.end, end);
        }
        len
    }

    /// Moves the offset to `end` after an append by `fd` that found it at `before`, unless a later append was faster.
    pub fn arrives(&self, fd: c_int, before: u64, end: u64) {
        loop {
            let now = self.at.load(Ordering::Relaxed);
            if now > OFFSET_MAX {
                return arrives_late(fd, end);
            }
            let is_behind = now > end && now != before && now != self.sought.load(Ordering::Relaxed);
            if is_behind || self.moves(now, end) {
                return;
            }
        }
    }

    /// Resizes the file, like ftruncate(2), by `fd`. The kernel learns the size before it forgets the file
    /// (FG8).
    pub fn resize(&self, fd: c_int, len: i64) -> Option<()> {
        let len = u64::try_from(len).ok().filter(|_| self.writes)?;
        self.sought.store(OFFSET_MAX, Ordering::Relaxed);
        if self.file.is_leased() {
            known_files::query_size(fd);
        }
        self.file.resize(len)
    }

    /// Moves the offset like lseek(2); returns `None` if the kernel has to do or refuse it.
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
        if self.is_standard() && planted!("preload: other processes meet claims of this one") {
            return;
        }
        let had_offset = self.has_offset();
        self.move_to_kernel(fd, KERNELS);
        self.moves(STANDARD, KERNELS);
        // An append is pinned until the offset has arrived. A signal handler would wait for the code that it
        // interrupted (LD5).
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

    /// Returns true if a read of `len` bytes that failed directly should be retried directly.
    pub fn may_retry_read(&self, len: usize) -> bool {
        self.reads && self.file.ask(LeaseNeed::Read, len, &|| ())
    }

    /// Returns true if a write of `len` bytes at `at` that failed directly should be retried directly.
    pub fn may_retry_write(&self, fd: c_int, at: u64, len: usize) -> bool {
        let need = self.need_to(at.saturating_add(len as u64));
        self.writes && !self.appends_with_others() && self.file.ask(need, len, &|| known_files::query_end(fd))
    }

    /// Reads through the kernel at the offset.
    ///
    /// # Safety
    /// The conditions of read(2).
    pub unsafe fn read_by_kernel(&self, fd: c_int, into: *mut c_void, len: usize) -> isize {
        loop {
            // SAFETY: the caller's promise.
            let Some(at) = self.offset() else { return unsafe { real::read(fd, into, len) } };
            // SAFETY: the caller's promise.
            let read = unsafe { real::pread(fd, into, len, at as i64) };
            // The bytes read after the offset was moved may be another file's.
            if self.moves(at, at + read.max(0) as u64) {
                return read;
            }
        }
    }

    /// Writes at the offset, or at `claimed`: directly if there is a lease, otherwise through the kernel.
    ///
    /// # Safety
    /// The conditions of write(2), and `from` has the bytes.
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
            // SAFETY: the caller's promise.
            return (self.append_by_kernel(fd, || unsafe { real::write(fd, bytes, from.len()) }), false);
        }
        let Some(place) = claimed.or_else(|| self.claim(from.len(), false)) else {
            self.surrender(fd);
            // SAFETY: the caller's promise.
            return (unsafe { real::write(fd, bytes, from.len()) }, false);
        };
        if may_retry {
            self.wait_for_end(place.at);
        }
        if let Some(len) = may_retry.then(|| self.file.write(&pin(), place.at, from)).flatten() {
            return (self.keep(&place, len) as isize, true);
        }
        // SAFETY: the caller's promise.
        let written = unsafe { real::pwrite(fd, bytes, from.len(), place.at as i64) };
        self.keep(&place, written.max(0) as usize);
        (written, false)
    }

    /// Appends by `call` of the kernel, which leaves its own offset at the end.
    fn append_by_kernel(&self, fd: c_int, call: impl FnOnce() -> isize) -> isize {
        self.by_kernel(|| {
            let before = self.offset();
            // The kernel's end of the file says where the append ends: nothing is done in between.
            known_files::query_size(fd);
            let written = call();
            if let Some(before) = before.filter(|_| written > 0) {
                self.arrives(fd, before, real::moved(fd, 0, libc::SEEK_CUR) as u64);
            }
            written
        })
    }

    /// Waits briefly for others that claimed the range between the end of the file and `at` to write it.
    fn wait_for_end(&self, at: u64) {
        let sought = self.sought.load(Ordering::Relaxed);
        let is_behind = || self.file.size().is_some_and(|size| (sought..at).contains(&size));
        // A signal handler would wait for the code that it interrupted (LD5).
        if is_behind() && pin().seat().is_some() {
            wait_briefly(|| !is_behind());
        }
    }

    /// Returns the lease that a write up to `end` needs.
    pub fn need_to(&self, end: u64) -> LeaseNeed {
        let is_within = !self.appends() && self.file.size().is_some_and(|size| end <= size);
        if is_within { LeaseNeed::Write } else { LeaseNeed::Append }
    }
}

/// Moves the kernel's offset after an append during which the kernel got the offset.
#[cold]
fn arrives_late(fd: c_int, end: u64) {
    let end = end as i64;
    if (0..end).contains(&real::moved(fd, 0, libc::SEEK_CUR)) {
        real::moved(fd, end, libc::SEEK_SET);
    }
}
