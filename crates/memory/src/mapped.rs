//! A file in the address space as [`Memory`]: what every pool lives in outside of tests.
//!
//! A load or store is a bounds check, the guard's window, the bare copy of [`crate::copy`], and nothing else: no lock,
//! no count, no allocation. The mapping is made once and never undone while it is in use.
#![allow(unsafe_code, reason = "reads and writes a mapping by raw pointers")]

use std::fs::{File, Permissions};
use std::os::fd::FromRawFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::area::{Area, AreaPlan};
use crate::cpu::Cpu;
use crate::fault::FaultEntry;
use crate::guard::{GuardWindow, OpenLoads, Right, Shield};
use crate::host_sync::HostSync;
use crate::{Error, Fletcher, Guard, Lent, Memory, Result, Scheme, Shared, Span, Survival, copy};

mod backing;
mod huge;
mod length;
mod own;
mod part;
mod resident;
mod space;
mod stores;
#[cfg(test)]
mod tests;
mod touched;

pub(crate) use backing::find as find_backing;
pub use backing::{Backing, survival as file_survival};
pub use length::set_len;
pub use own::{make_pool_file, own_storage};

use huge::HugePages;
use part::{refused, whole_pages};
use resident::FlushesAll;
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
    /// Lines are flushed behind non-temporal stores: the power may take what is in the caches, and they may be there.
    flushes_streams: bool,
    shield: Shield,
    backing: Backing,
    guard: Guard,
    huge_pages: HugePages,
    touched: Touched,
    whole: FlushesAll,
    host_sync: HostSync,
    name: String,
    _entry: Option<FaultEntry>,
}

impl Mapped {
    /// Maps `file`, opened for reading and, unless `read_only`, for writing. A last part that fills no page of the host
    /// (4 KiB, or hugetlbfs's page) is left out.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if `file` is neither a file nor a device DAX node, if this machine lacks the guard, or if
    /// the span is not whole pages of the file; [`Error::Io`] if the system refuses.
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
        // SAFETY: the descriptor is fresh and owned by nothing else.
        let file = unsafe { File::from_raw_fd(fd) };
        let own = file.set_permissions(Permissions::from_mode(0o600));
        own.map_err(|why| Error::io("closing anonymous memory to others", why))?;
        file.set_len(size).map_err(|why| Error::io(format!("sizing anonymous memory to {size} bytes"), why))?;
        let mut found = backing::find(&file)?;
        found.backing = Backing::Anon;
        Self::map_found(file, options, &found)
    }

    fn map_found(file: File, options: &MapOptions, found: &backing::FoundBacking) -> Result<Self> {
        let span = whole_pages(options, found)?;
        let shield = Shield::new(options.guard)?;
        let rights = shield.closed_protection(!options.read_only);
        let wants_huge = found.backing == Backing::Shm && !options.small_pages;
        let plan = AreaPlan { span, rights, flags: found.flags, page_bytes: found.unit_bytes, wants_huge };
        let area = Area::map(file, &plan).map_err(|why| refused(options, found, span, why))?;
        shield.cover(&area, !options.read_only)?;
        let entry = FaultEntry::new(&area, &options.name);
        Ok(Self {
            writable: if options.read_only { 0 } else { area.len() },
            huge_pages: HugePages::new(area.len(), !options.small_pages),
            area,
            open_loads: shield.open_loads(),
            cpu: Cpu::get(),
            flushes_streams: found.backing == Backing::Dax && !Cpu::get().streams_past_caches,
            shield,
            backing: found.backing,
            guard: options.guard,
            touched: Touched::default(),
            whole: FlushesAll::default(),
            host_sync: HostSync::default(),
            name: options.name.clone(),
            _entry: entry,
        })
    }

    /// Returns the kind of storage behind the mapping.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// What keeps stray writes out.
    pub fn guard(&self) -> Guard {
        self.guard
    }

    /// Returns the medium, what its content survives and the guard in one line without the pool's name. `survival` is what
    /// the pool says, which may be more than what was found.
    pub fn describe(&self, survival: &Survival) -> String {
        let stray = match self.guard {
            Guard::None => "not held off".into(),
            guard => format!("held off by {}", guard.name()),
        };
        format!("{}, {}; stray writes: {stray}", self.backing.name(), survival.describe(!self.fence_is_durable()))
    }

    /// A checked window on the word at `at`.
    #[inline]
    fn open_word(&self, at: u64, right: Right, limit: u64) -> GuardWindow<'_> {
        let span = Span::new(at, 8);
        self.check_words(span, limit);
        self.shield.open(&self.area, span, right)
    }

    #[inline(never)]
    fn load_word_through_window(&self, at: u64) -> u64 {
        let window = self.open_word(at, Right::Read, self.area.len());
        // SAFETY: an aligned word within the mapping, which the window opens; atomics may race.
        u64::from_le(unsafe { AtomicU64::from_ptr(window.ptr().cast()).load(Ordering::Acquire) })
    }

    #[inline(never)]
    fn load_through_window(&self, span: Span, into: &mut [u8]) {
        let window = self.shield.open(&self.area, span, Right::Read);
        // SAFETY: the caller checked that the span lies within the mapping, which the window opens; the slice is its own.
        unsafe { copy::load(&self.cpu, into.as_mut_ptr(), window.ptr(), into.len()) };
    }
}

impl Memory for Mapped {
    #[inline]
    fn size(&self) -> u64 {
        self.area.len()
    }

    fn survival(&self) -> Survival {
        match self.backing {
            Backing::Anon => Survival::none("it is memory of this process alone"),
            _ => backing::survival(self.area.file()),
        }
    }

    fn fence_is_durable(&self) -> bool {
        self.backing.fence_is_durable()
    }

    #[inline(always)]
    fn load(&self, at: u64, into: &mut [u8]) {
        let span = Span::new(at, into.len() as u64);
        self.check(span, self.area.len());
        if self.open_loads.allowed() {
            let from = self.area.base().wrapping_add(at as usize);
            // SAFETY: checked above to lie within the mapping, which this thread may read; the slice is the caller's.
            return unsafe { copy::load(&self.cpu, into.as_mut_ptr(), from, into.len()) };
        }
        self.load_through_window(span, into);
    }

    #[inline]
    fn expect_store(&self, at: u64) {
        self.shield.expect(&self.area, at);
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
                copy::store_nt(window.ptr(), from.as_ptr(), from.len());
                return self.flush_stream(&window, from.len());
            }
            self.store_cached(&window, from, how);
        }
        drop(window);
        self.track(span, how);
    }

    #[inline]
    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        let span = Span::new(at, from.len() as u64);
        self.check(span, self.writable);
        if !(at as usize | from.len()).is_multiple_of(copy::LINE_BYTES) {
            return None;
        }
        let window = self.shield.open(&self.area, span, Right::Write);
        // SAFETY: checked above to be lines within the mapping, which starts with a page and which the window opens; the slice
        // is the caller's own.
        unsafe {
            let sum = copy::stream_summed(self.cpu.stream_width, window.ptr(), from.as_ptr(), from.len());
            self.flush_stream(&window, from.len());
            Some(sum)
        }
    }

    fn zero(&self, span: Span, how: Scheme) {
        self.check(span, self.writable);
        let window = self.shield.open(&self.area, span, Right::Write);
        // SAFETY: checked above to lie within the mapping, which the window opens.
        unsafe {
            if how == Scheme::Nt {
                copy::zero_nt(window.ptr(), span.len as usize);
                return self.flush_stream(&window, span.len as usize);
            }
            self.zero_cached(&window, span.len as usize, how);
        }
        drop(window);
        self.track(span, how);
    }

    // Inlined for the same reason as `load`: few instructions should lie between two copies.
    #[inline(always)]
    fn load_word(&self, at: u64) -> u64 {
        if !self.open_loads.allowed() {
            return self.load_word_through_window(at);
        }
        self.check_words(Span::new(at, 8), self.area.len());
        let word = self.area.base().wrapping_add(at as usize);
        // SAFETY: an aligned word within the mapping, which this thread may read; atomics may race.
        u64::from_le(unsafe { AtomicU64::from_ptr(word.cast()).load(Ordering::Acquire) })
    }

    #[inline]
    fn load_words(&self, at: u64, into: &mut [u64]) {
        let span = Span::new(at, size_of_val(into) as u64);
        self.check_words(span, self.area.len());
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

    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        let whole = self.shield.open_whole(&self.area);
        for (at, from) in pieces {
            let span = Span::new(*at, from.len() as u64);
            self.check_words(span, self.writable);
            let own = whole.is_none().then(|| self.shield.open(&self.area, span, Right::Write));
            let base = self.area.base().wrapping_add(*at as usize);
            let words = own.as_ref().map_or(base, GuardWindow::ptr).cast::<u64>();
            for (index, word) in from.as_chunks().0.iter().enumerate() {
                // SAFETY: an aligned word within the mapping, which one of the windows opens; atomics may race.
                unsafe { AtomicU64::from_ptr(words.add(index)).store(u64::from_ne_bytes(*word), Ordering::Release) };
            }
        }
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
            return self.host_sync.ensure_sound();
        }
        self.host_sync.sync(self.area.file())
    }

    fn drain_range(&self, span: Span) -> Result<()> {
        if self.fence_is_durable() || self.writable == 0 {
            return self.drain();
        }
        self.check(span, self.area.len());
        copy::fence();
        self.host_sync.sync_part(self.area.file(), || self.sync_pages(span))
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
