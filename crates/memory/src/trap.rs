//! A region of the address space whose pages lie in different places, and whose faults this process answers.
//!
//! ```text
//!   region   | DRAM | frames | DRAM ...... | frames |     the range of addresses that a program uses
//!   blank    | DRAM ................................|     mapped and registered like the region; no thread uses it
//!   sources  | frames ........ |                          frames of a pool; no thread uses these mappings
//!
//!   map     populate and mremap a part of a source               fill    bytes to DRAM, then show them read-only
//!   supply  bytes to DRAM, then show them writable
//!   stage   mremap of the blank mapping over the region          both mremaps leave their source mapped, and empty
//! ```
//!
//! - TR1. Replacing a part of the region is one step: each access finds the old pages or the new ones. No access finds
//!   nothing, and no store is lost in between.
//! - TR2. After [`TrapRegion::stage`] returned, no store reaches the pages that were mapped before: the next access of
//!   each page faults. Pages that the kernel pinned earlier, for direct I/O, are the exception.
//! - TR3. A page that was filled is read-only: the next store to it faults.
//! - TR4. An access that faulted waits until [`TrapRegion::wake`] or [`TrapRegion::fill`], then it is tried again. A
//!   message may be late or repeated; it says only that an access faulted.
//! - TR5. `stage` returns after another thread has read the kernel's message about it, by [`TrapRegion::next_fault`].
//! - TR6. The descriptor that reports faults is open until the region is unmapped: otherwise the kernel would answer
//!   with zeros. Children that this process forks have none of the mappings. All mappings of one kind have equal flags,
//!   so neighbours become one again.
//! - TR7. No function here accesses a page of the region, nor lets the kernel access one: the thread that answers would
//!   wait for itself. Only the program does, by [`TrapRegion::word`], [`TrapRegion::byte`] and [`TrapRegion::base`].
//! - TR8. A page that was supplied keeps its stores: only the first [`TrapRegion::supply`] of a page stores into it.
#![allow(unsafe_code, reason = "mappings that replace each other, and atomics in them")]

use std::fs::{File, Permissions};
use std::io;
use std::os::fd::FromRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

use crate::area::{Area, AreaPlan};
use crate::mapped::find_backing;
use crate::{Backing, Error, Result, Shared, Span, planted};

#[cfg(test)]
mod tests;
mod trap_fd;

use trap_fd::TrapFd;

const PAGE: u64 = 4096;
/// The kernel's usual limit of the mappings of a process.
const MAPPINGS_USUAL: usize = 65_530;

/// An access that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapFault {
    /// The page's offset in the region, in bytes.
    pub at: u64,
    /// The access is a store.
    pub is_store: bool,
}

/// Frames that a region can show.
struct FrameSource {
    /// Their place in the pool's memory.
    span: Span,
    area: Area,
    /// The advice that makes the kernel map all pages of a range at once.
    populate: i32,
}

/// A range of addresses that a region may replace.
pub struct RegionPlace {
    base: usize,
    len: u64,
}

impl RegionPlace {
    /// Returns the range of `len` bytes from `base` on.
    ///
    /// # Safety
    /// The caller owns every mapping in the range until the region is dropped.
    pub unsafe fn new(base: *mut u8, len: u64) -> Self {
        Self { base: base as usize, len }
    }
}

/// A region whose faults this process answers.
pub struct TrapRegion {
    // Unmapped in this order; the descriptor is closed afterwards (TR6).
    region: Area,
    blank: Area,
    sources: RwLock<Vec<FrameSource>>,
    dram: File,
    /// A bit for each page that was supplied (TR8).
    supplied: Box<[AtomicU64]>,
    traps: TrapFd,
}

impl TrapRegion {
    /// Maps a region of `len` bytes, whose first accesses all fault.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the kernel or the rights of this process do not allow it, [`Error::Io`] if the system
    /// refuses for another reason.
    pub fn new(len: u64) -> Result<Self> {
        Self::at(None, len)
    }

    /// As [`TrapRegion::new`], at `place` if it is given.
    ///
    /// # Errors
    /// As [`TrapRegion::new`].
    pub fn at(place: Option<RegionPlace>, len: u64) -> Result<Self> {
        let traps = TrapFd::open()?;
        // SAFETY: the name is a C string literal; the call makes a new descriptor.
        let fd = unsafe { libc::memfd_create(c"ferrite-region".as_ptr(), libc::MFD_CLOEXEC) };
        if fd < 0 {
            return Err(Error::last_os("making the memory of a region"));
        }
        // SAFETY: the descriptor is fresh and owned by nothing else.
        let dram = unsafe { File::from_raw_fd(fd) };
        let sized = dram.set_permissions(Permissions::from_mode(0o600)).and_then(|()| dram.set_len(len));
        sized.map_err(|why| Error::io(format!("sizing the memory of a region to {len} bytes"), why))?;
        let map = |place| -> Result<Area> {
            let file = dram.try_clone().map_err(|why| Error::io("opening the memory of a region again", why))?;
            let area = map_trapped(file, place, Span::new(0, len), libc::MAP_SHARED | libc::MAP_NORESERVE)?;
            traps.register(area.base() as u64, len)?;
            Ok(area)
        };
        let (region, blank) = (map(place)?, map(None)?);
        let about = dram.metadata().map_err(|why| Error::io("reading the size of a region's memory", why))?;
        if about.blocks() > 0 {
            // The kernel filled the mappings before it was asked to report: no access of their pages faults.
            return Err(Error::Unsupported("a region in a process that locks all its memory (mlockall)".into()));
        }
        let supplied = (0..len.div_ceil(PAGE * 64)).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { region, blank, sources: RwLock::default(), dram, supplied, traps })
    }

    /// Adds frames that [`TrapRegion::map`] can show: those at `span` of a pool's memory, which is `shared`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the frames cannot be mapped page by page, [`Error::Io`] if the system refuses.
    pub fn add_source(&self, span: Span, shared: Shared) -> Result<()> {
        let file = File::from(shared.fd);
        let found = find_backing(&file)?;
        if !found.backing.fence_is_durable() || found.unit_bytes != PAGE {
            return Err(Error::Unsupported(format!(
                "a program's own stores into a pool on {}: use a pool on tmpfs, or in a file on a DAX file system",
                found.backing.name()
            )));
        }
        let area = map_trapped(file, None, Span::new(shared.offset, span.len), found.flags)?;
        // Reads map 16 pages of tmpfs at a time, writable. On DAX only a store makes a page writable.
        let populate = if found.backing == Backing::Dax { libc::MADV_POPULATE_WRITE } else { libc::MADV_POPULATE_READ };
        let mut sources = self.sources.write().unwrap_or_else(PoisonError::into_inner);
        sources.push(FrameSource { span, area, populate });
        Ok(())
    }

    /// Returns the number of mappings that the kernel allows this process.
    pub fn mappings_max() -> usize {
        let text = std::fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(MAPPINGS_USUAL)
    }

    /// Returns the first address of the region.
    pub fn base(&self) -> *mut u8 {
        self.region.base()
    }

    /// Returns the bytes of the region.
    pub fn size(&self) -> u64 {
        self.region.len()
    }

    /// Returns the aligned word at byte `at` of the region. An access waits while its page faults.
    pub fn word(&self, at: u64) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at < self.size(), "a word of the region");
        // SAFETY: an aligned word within the region, which is mapped as long as this lives; atomics may race.
        unsafe { AtomicU64::from_ptr(self.base().wrapping_add(at as usize).cast()) }
    }

    /// Returns `count` aligned words from byte `at` of the region on. An access waits while its page faults.
    pub fn words(&self, at: u64, count: usize) -> &[AtomicU64] {
        if count == 0 {
            return &[];
        }
        let span = Span::new(at, count as u64 * 8);
        assert!(at.is_multiple_of(8) && span.fits(self.size()), "words of the region");
        // SAFETY: aligned words within the region, which is mapped as long as this lives; atomics may race.
        unsafe { std::slice::from_raw_parts(self.base().wrapping_add(at as usize).cast(), count) }
    }

    /// Returns byte `at` of the region. An access waits while its page faults.
    pub fn byte(&self, at: u64) -> &AtomicU8 {
        assert!(at < self.size(), "a byte of the region");
        // SAFETY: a byte within the region, which is mapped as long as this lives; atomics may race.
        unsafe { AtomicU8::from_ptr(self.base().wrapping_add(at as usize)) }
    }

    /// Makes `span` of the region the frames at `frames` of the pool's memory, writable (TR1). Wakes nothing.
    ///
    /// # Errors
    /// [`Error::Io`] if the kernel has no room for another mapping; nothing is changed.
    pub fn map(&self, span: Span, frames: u64) -> Result<()> {
        let has = |of: Span| of.at <= frames && frames + span.len <= of.at + of.len;
        let sources = self.sources.read().unwrap_or_else(PoisonError::into_inner);
        let source = sources.iter().find(|source| has(source.span)).expect("frames of a source");
        let from = source.area.base().wrapping_add((frames - source.span.at) as usize);
        // The source's pages move along. Pages of the region itself may be staged meanwhile, and would fault (TR7).
        // SAFETY: advice on a mapping of this value. If the kernel refuses, the first store to each page takes longer.
        unsafe { libc::madvise(from.cast(), span.len as usize, source.populate) };
        let replaced = self.replace(span, from);
        replaced.map_err(|why| Error::io("mapping frames into a region", why))?;
        Ok(())
    }

    /// Takes the pages of `span` away (TR2). Another thread must read faults meanwhile (TR5).
    pub fn stage(&self, span: Span) {
        let is_short = span.len > PAGE && planted!("trap: the last page stays mapped");
        let span = if is_short { Span::new(span.at, span.len - PAGE) } else { span };
        while let Err(why) = self.replace(span, self.blank.base().wrapping_add(span.at as usize)) {
            if why.raw_os_error() != Some(libc::ENOMEM) {
                // The access could not be withdrawn, so the process must not continue.
                std::process::abort();
            }
            std::thread::yield_now();
        }
    }

    /// Shows `bytes`, one page, read-only at byte `at` (TR3), unless frames are mapped there. Wakes the accesses that
    /// wait for the page; they fault again if the page could not be shown.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] if there is no memory for the page; nothing is woken.
    pub fn fill(&self, at: u64, bytes: &[u8]) -> Result<()> {
        self.store_page(at, bytes)?;
        self.show(at, !planted!("trap: a filled page is writable"))
    }

    /// Shows `bytes`, one page, writable at byte `at`. A page that was supplied before is shown again with the program's
    /// stores (TR8). One thread at a time calls this. Wakes the accesses that wait for the page.
    ///
    /// # Errors
    /// As [`TrapRegion::fill`].
    pub fn supply(&self, at: u64, bytes: &[u8]) -> Result<()> {
        if !self.is_supplied(at) || planted!("trap: a supplied page is stored to again") {
            self.store_page(at, bytes)?;
            let page = at / PAGE;
            self.supplied[(page / 64) as usize].fetch_or(1 << (page % 64), Ordering::Release);
        }
        self.show(at, false)
    }

    /// Returns true if the page of byte `at` was supplied. The program has stored to no other page.
    pub fn is_supplied(&self, at: u64) -> bool {
        let page = at / PAGE;
        self.supplied[(page / 64) as usize].load(Ordering::Acquire) >> (page % 64) & 1 == 1
    }

    fn store_page(&self, at: u64, bytes: &[u8]) -> Result<()> {
        assert_eq!(bytes.len() as u64, PAGE, "one page");
        self.dram.write_all_at(bytes, at).map_err(|why| Error::io("filling a page of a region", why))
    }

    /// Maps the page of DRAM at byte `at`, and wakes the accesses that wait for it.
    fn show(&self, at: u64, is_read_only: bool) -> Result<()> {
        let shown = self.traps.show(self.base() as u64 + at, PAGE, is_read_only);
        match shown.as_ref().map_err(io::Error::raw_os_error) {
            Ok(()) => {}
            // It is shown already; frames are mapped there; or the mappings are changing.
            Err(Some(libc::EEXIST | libc::ENOENT | libc::EAGAIN)) => self.wake(Span::new(at, PAGE)),
            Err(_) => return shown.map_err(|why| Error::io("showing a page of a region", why)),
        }
        Ok(())
    }

    /// Lets the accesses that wait for pages of `span` be tried again (TR4).
    pub fn wake(&self, span: Span) {
        self.traps.wake(self.base() as u64 + span.at, span.len);
    }

    /// Waits for the next access that faults. Returns `None` once [`TrapRegion::stop`] was called.
    ///
    /// # Errors
    /// [`Error::Io`] if reading the kernel's message fails.
    pub fn next_fault(&self) -> Result<Option<TrapFault>> {
        let of = |(address, is_store): (u64, bool)| TrapFault {
            at: address.wrapping_sub(self.base() as u64) / PAGE * PAGE,
            is_store,
        };
        // A fault in the blank mapping would be a stray access: nothing answers it.
        loop {
            match self.traps.next()?.map(of) {
                Some(fault) if fault.at >= self.size() => {}
                other => return Ok(other),
            }
        }
    }

    /// Takes all pages away for good: each later access is the fault of a program that uses what it unmapped.
    pub fn cover(&self) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let (base, len) = (self.base().cast(), self.size() as usize);
        // SAFETY: it replaces the region alone, to which nothing but atomics and raw pointers refers.
        let covered = unsafe { libc::mmap(base, len, libc::PROT_NONE, flags, -1, 0) };
        if covered == libc::MAP_FAILED {
            // The access could not be withdrawn, so the process must not continue.
            std::process::abort();
        }
    }

    /// Ends [`TrapRegion::next_fault`] for good. Accesses that fault from then on wait until the process ends.
    pub fn stop(&self) {
        self.traps.stop();
    }

    /// Maps what is at `from` over `span` of the region as well, and leaves an empty mapping of the same there (TR1).
    fn replace(&self, span: Span, from: *mut u8) -> io::Result<()> {
        assert!(span.at + span.len <= self.size(), "within the region");
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        let (len, place) = (span.len as usize, self.base().wrapping_add(span.at as usize));
        // SAFETY: it replaces pages of the region, to which nothing but atomics and raw pointers refers; both mappings
        // are this value's own.
        let moved = unsafe { libc::mremap(from.cast(), len, len, flags, place.cast::<libc::c_void>()) };
        if moved == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

/// Maps `span` of `file` for a region, at `place` if it is given: no child has it.
fn map_trapped(file: File, place: Option<RegionPlace>, span: Span, flags: i32) -> Result<Area> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let plan = AreaPlan { span, rights, flags, page_bytes: PAGE, wants_huge: false };
    let mapped = match place {
        Some(place) => {
            assert_eq!(place.len, span.len, "the place of the whole region");
            // SAFETY: the promise of `RegionPlace::new`.
            unsafe { Area::map_over(place.base as *mut u8, file, &plan) }
        }
        None => Area::map(file, &plan),
    };
    let area = mapped.map_err(|why| Error::io(format!("mapping {} bytes", span.len), why))?;
    if !planted!("trap: children have the region") {
        area.keep_from_children();
    }
    Ok(area)
}
