//! A file in the address space as [`Memory`]: what every pool lives in outside of tests.
//!
//! A load or store is a bounds check, the guard's window, the bare copy of [`crate::copy`], and nothing else: no lock,
//! no count, no allocation. The mapping is made once and never undone while it is in use.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::FromRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::area::{Area, AreaPlan};
use crate::cpu::Cpu;
use crate::fault::Entry;
use crate::guard::{OpenLoads, Right, Shield, Window};
use crate::settling::Settling;
use crate::{Error, Guard, Lent, Memory, Result, Scheme, Shared, Span, Survival, copy};

mod backing;
mod huge;
mod resident;
mod space;
#[cfg(test)]
mod tests;
mod touched;

pub use backing::Backing;

use huge::HugePages;
use resident::Whole;
use touched::Touched;

/// How to map.
#[derive(Clone, Debug, Default)]
pub struct MapOptions {
    /// What keeps stray writes out.
    pub guard: Guard,
    /// Refuse every store. The file may then be open for reading only.
    pub read_only: bool,
    /// The part of the file to map, in whole pages; all of it where `None`.
    pub span: Option<Span>,
    /// Leave memory of tmpfs in the small pages that it gives: slower, to be compared with.
    pub small_pages: bool,
    /// What messages call it: the pool's path.
    pub name: String,
}

/// A mapped file.
pub struct Mapped {
    area: Area,
    /// Bytes that may be stored to: all or none.
    writable: u64,
    open_loads: OpenLoads,
    cpu: Cpu,
    shield: Shield,
    backing: Backing,
    guard: Guard,
    huge_pages: HugePages,
    touched: Touched,
    whole: Whole,
    settling: Settling,
    name: String,
    _entry: Option<Entry>,
}

impl Mapped {
    /// Maps `file`, opened for reading and, unless `read_only`, for writing. Its last part that fills no page of the
    /// host (4 KiB, or hugetlbfs's page) is left out.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what is no file and no device DAX node, for a guard this machine lacks, for a span
    /// that is not whole pages of the file; [`Error::Io`] for what the system refuses.
    pub fn map(file: File, options: &MapOptions) -> Result<Self> {
        let found = backing::find(&file)?;
        Self::map_found(file, options, &found)
    }

    /// Maps `size` bytes of fresh memory that is gone with the process.
    ///
    /// # Errors
    /// As [`Mapped::map`]; the span of `options` is within the `size` bytes.
    pub fn anonymous(size: u64, options: &MapOptions) -> Result<Self> {
        // SAFETY: the name is a C string literal; the call makes a new descriptor.
        let fd = unsafe { libc::memfd_create(c"ferrite".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os("making anonymous memory"));
        }
        // SAFETY: the descriptor is fresh and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(size).map_err(|why| Error::io(format!("sizing anonymous memory to {size} bytes"), why))?;
        let mut found = backing::find(&file)?;
        found.backing = Backing::Anon;
        Self::map_found(file, options, &found)
    }

    fn map_found(file: File, options: &MapOptions, found: &backing::Found) -> Result<Self> {
        let span = whole_pages(options, found)?;
        let shield = Shield::new(options.guard)?;
        let rights = shield.closed_protection(!options.read_only);
        let plan = AreaPlan { span, rights, flags: found.flags, page_bytes: found.unit_bytes };
        let area = Area::map(file, &plan).map_err(|why| refused(options, found, span, why))?;
        shield.cover(&area, !options.read_only)?;
        let entry = Entry::new(&area, &options.name);
        Ok(Self {
            writable: if options.read_only { 0 } else { area.len() },
            huge_pages: HugePages::new(area.len(), !options.small_pages),
            area,
            open_loads: shield.keys_for_open_loads(),
            cpu: Cpu::get(),
            shield,
            backing: found.backing,
            guard: options.guard,
            touched: Touched::default(),
            whole: Whole::default(),
            settling: Settling::default(),
            name: options.name.clone(),
            _entry: entry,
        })
    }

    /// What is behind it.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// What keeps stray writes out.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// What is stored where and what that survives, in one line without the pool's name.
    pub fn describe(&self) -> String {
        let until = if self.backing == Backing::File { " (up to the last barrier)" } else { "" };
        let stray = match self.guard {
            Guard::None => "not held off".into(),
            guard => format!("held off by {}", guard.name()),
        };
        format!("{}, {}{until}; stray writes: {stray}", self.backing.name(), self.survival())
    }

    #[inline]
    fn check(&self, span: Span, limit: u64) {
        if span.len > limit || span.at > limit - span.len {
            self.refuse(span, limit);
        }
    }

    #[cold]
    #[inline(never)]
    fn refuse(&self, span: Span, limit: u64) -> ! {
        let why = if limit == 0 { "is mapped read-only" } else { "ends before that" };
        panic!("{} bytes at {}: {} of {} bytes {why}", span.len, span.at, self.name, self.area.len());
    }

    /// A checked window on the word at `at`.
    #[inline]
    fn open_word(&self, at: u64, right: Right, limit: u64) -> Window<'_> {
        let span = Span::new(at, 8);
        self.check(span, limit);
        assert!(at.is_multiple_of(8), "a word at byte {at}, which is no multiple of 8");
        self.shield.open(&self.area, span, right)
    }

    #[inline(never)]
    fn load_through_window(&self, span: Span, into: &mut [u8]) {
        let window = self.shield.open(&self.area, span, Right::Read);
        // SAFETY: the caller checked that the span lies within the mapping, which the window opens; the slice is its own.
        unsafe { copy::load(self.cpu, into.as_mut_ptr(), window.ptr(), into.len()) };
    }

    /// Stores through the cache as `how` asks, into an open window.
    ///
    /// # Safety
    /// The window covers the span and is open; `from` is as long.
    #[inline]
    unsafe fn store_cached(&self, window: &Window<'_>, from: &[u8], how: Scheme) {
        let (to, by) = (window.ptr(), self.cpu.line_flush_of(how));
        // SAFETY: the caller's promise; the slice is readable.
        unsafe {
            if how == Scheme::Writethrough {
                return copy::store_through(to, from.as_ptr(), from.len(), by);
            }
            copy::plain(to, from.as_ptr(), from.len());
            if how.settles_at_fence() {
                copy::flush_lines(to, from.len(), by);
            }
        }
    }

    /// Zeroes through the cache as `how` asks, in an open window.
    ///
    /// # Safety
    /// The window covers the `len` bytes and is open.
    unsafe fn zero_cached(&self, window: &Window<'_>, len: usize, how: Scheme) {
        let (to, by) = (window.ptr(), self.cpu.line_flush_of(how));
        // SAFETY: the caller's promise.
        unsafe {
            if how == Scheme::Writethrough {
                return copy::zero_through(to, len, by);
            }
            copy::plain_zero(to, len);
            if how.settles_at_fence() {
                copy::flush_lines(to, len, by);
            }
        }
    }

    /// What `how` asks for after the window is closed: the list of touched spans has a lock, which no window may wait
    /// for (GU3). The barrier that must find untracked lines settled may run on another processor, whose fence drains
    /// only its own: hence the fence here.
    #[inline]
    fn track(&self, span: Span, how: Scheme) {
        if how == Scheme::Writeback && !self.touched.add(span) {
            self.flush(span);
            copy::fence();
        }
        if how == Scheme::WritebackAll {
            self.whole.use_for_good();
        }
    }
}

fn whole_pages(options: &MapOptions, found: &backing::Found) -> Result<Span> {
    let unit = found.unit_bytes;
    let all = Span::new(0, found.size / unit * unit);
    let span = options.span.unwrap_or(all);
    if span.len > 0 && span.fits(all.len) && span.aligned_to(unit) {
        return Ok(span);
    }
    let (size, name) = (found.size, &options.name);
    Err(Error::Unsupported(format!(
        "mapping {} bytes at {} of {name}, which has {size} bytes in pages of {unit}: at least one whole page is needed",
        span.len, span.at
    )))
}

fn refused(options: &MapOptions, found: &backing::Found, span: Span, why: io::Error) -> Error {
    let advice = match (found.backing, why.kind()) {
        (Backing::Hugetlb, io::ErrorKind::OutOfMemory) => "; raise vm.nr_hugepages",
        _ => "",
    };
    Error::io(format!("mapping {} bytes at {} of {}{advice}", span.len, span.at, options.name), why)
}

impl Memory for Mapped {
    #[inline]
    fn size(&self) -> u64 {
        self.area.len()
    }

    fn survival(&self) -> Survival {
        self.backing.survival()
    }

    fn fence_is_durable(&self) -> bool {
        self.backing.fence_is_durable()
    }

    #[inline]
    fn load(&self, at: u64, into: &mut [u8]) {
        let span = Span::new(at, into.len() as u64);
        self.check(span, self.area.len());
        if self.open_loads.allowed() {
            let from = self.area.base().wrapping_add(at as usize);
            // SAFETY: checked above to lie within the mapping, which this thread may read; the slice is the caller's.
            return unsafe { copy::load(self.cpu, into.as_mut_ptr(), from, into.len()) };
        }
        self.load_through_window(span, into);
    }

    #[inline]
    fn load_summed(&self, at: u64, into: &mut [u8]) -> Option<u32> {
        self.check(Span::new(at, into.len() as u64), self.area.len());
        if self.open_loads.allowed() {
            let from = self.area.base().wrapping_add(at as usize);
            // SAFETY: checked above to lie within the mapping, which this thread may read; the slice is the caller's.
            let sum = unsafe { copy::copy_and_sum(into.as_mut_ptr(), from, into.len()) };
            if sum.is_some() {
                return sum;
            }
        }
        self.load(at, into);
        None
    }

    #[inline]
    fn store(&self, at: u64, from: &[u8], how: Scheme) {
        let span = Span::new(at, from.len() as u64);
        self.check(span, self.writable);
        let window = self.shield.open(&self.area, span, Right::Write);
        // SAFETY: checked above to lie within the mapping, which the window opens; the slice is the caller's own.
        unsafe {
            if how == Scheme::Nt {
                return copy::store_nt(window.ptr(), from.as_ptr(), from.len());
            }
            self.store_cached(&window, from, how);
        }
        drop(window);
        self.track(span, how);
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.check(span, self.writable);
        let window = self.shield.open(&self.area, span, Right::Write);
        // SAFETY: checked above to lie within the mapping, which the window opens.
        unsafe {
            if how == Scheme::Nt {
                return copy::zero_nt(window.ptr(), span.len as usize);
            }
            self.zero_cached(&window, span.len as usize, how);
        }
        drop(window);
        self.track(span, how);
    }

    #[inline]
    fn load_word(&self, at: u64) -> u64 {
        if self.open_loads.allowed() {
            self.check(Span::new(at, 8), self.area.len());
            assert!(at.is_multiple_of(8), "a word at byte {at}, which is no multiple of 8");
            let word = self.area.base().wrapping_add(at as usize);
            // SAFETY: an aligned word within the mapping, which this thread may read; atomics may race.
            return u64::from_le(unsafe { AtomicU64::from_ptr(word.cast()).load(Ordering::Acquire) });
        }
        let window = self.open_word(at, Right::Read, self.area.len());
        // SAFETY: an aligned word within the mapping, which the window opens; atomics may race.
        u64::from_le(unsafe { AtomicU64::from_ptr(window.ptr().cast()).load(Ordering::Acquire) })
    }

    #[inline]
    fn load_words(&self, at: u64, into: &mut [u64]) {
        let span = Span::new(at, size_of_val(into) as u64);
        self.check(span, self.area.len());
        assert!(at.is_multiple_of(8), "words at byte {at}, which is no multiple of 8");
        if !self.open_loads.allowed() {
            return into.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = self.load_word(at));
        }
        let words = self.area.base().wrapping_add(at as usize).cast::<u64>();
        for (index, word) in into.iter_mut().enumerate() {
            // SAFETY: an aligned word within the mapping, which this thread may read; atomics may race.
            *word = u64::from_le(unsafe { AtomicU64::from_ptr(words.add(index)).load(Ordering::Acquire) });
        }
    }

    #[inline]
    fn store_word(&self, at: u64, value: u64) {
        let window = self.open_word(at, Right::Write, self.writable);
        // SAFETY: an aligned word within the mapping, which the window opens; atomics may race.
        unsafe { AtomicU64::from_ptr(window.ptr().cast()).store(value.to_le(), Ordering::Release) };
    }

    /// A flush reads the lines as far as rights go, so only what denies reads needs a window.
    #[inline]
    fn flush(&self, span: Span) {
        self.check(span, self.area.len());
        let window = self.shield.open(&self.area, span, Right::Read);
        // SAFETY: checked above to lie within the mapping, which the window opens.
        unsafe { copy::flush_lines(window.ptr(), span.len as usize, self.cpu.line_flush) };
    }

    #[inline]
    fn fence(&self) {
        copy::fence();
    }

    fn barrier(&self) -> Result<()> {
        self.touched.drain(|span| self.flush(span), copy::fence);
        if self.whole.is_used() {
            self.flush_resident();
        }
        copy::fence();
        if self.fence_is_durable() || self.writable == 0 {
            return self.settling.ensure_sound();
        }
        self.settling.settle(self.area.file())
    }

    fn inherit(&self) -> Result<()> {
        if self.backing == Backing::Dax && self.writable > 0 {
            self.flush_inherited()?;
        }
        self.barrier()
    }

    fn reserve(&self, span: Span) -> Result<()> {
        self.reserve_space(span)
    }

    fn release(&self, span: Span) -> Result<()> {
        self.release_space(span)
    }

    fn share(&self, span: Span) -> Result<Shared> {
        self.share_span(span)
    }

    fn lend(&self, span: Span) -> Option<Lent<'_>> {
        self.lend_span(span)
    }
}
