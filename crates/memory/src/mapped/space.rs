//! A mapping's dealings with its host for space, and what pages the host gave.
#![allow(unsafe_code, reason = "fallocate and madvise")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use super::huge::HUGE;
use super::{Backing, Mapped, backing};
use crate::guard::Right;
use crate::{Error, Lent, Result, Shared, Span, planted};

/// Of linux/mman.h; Linux 6.1 and later know it.
const MADV_COLLAPSE: libc::c_int = 25;

impl Mapped {
    /// Touches the pages of `span` now, so that no later access pays for it. Stores nothing.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where the host has no page to give.
    pub fn populate(&self, span: Span) -> Result<()> {
        self.check(span, self.area.len());
        let writes = self.writable > 0 && matches!(self.backing, Backing::Shm | Backing::Hugetlb | Backing::Anon);
        if !writes {
            return self.touch(span, Right::Read);
        }
        self.make_huge(span);
        self.touch(span, Right::Write)
    }

    /// The page size that maps most of what is resident, in bytes: what the host gave, not what was asked for.
    pub fn page_bytes(&self) -> u64 {
        let unit = self.area.page_bytes();
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
        let base = self.area.base() as u64;
        let resident = Resident::of(&smaps, Span::new(base, self.area.len()));
        if unit < HUGE && resident.huge_kib * 2 > resident.all_kib { HUGE } else { unit }
    }

    /// Returns the bytes of the file without storage, and the bytes that its host has left for all its files. Returns
    /// `None` if the file has all its storage, or the host knows no limit.
    ///
    /// # Errors
    /// [`Error::Io`] if the host does not report them.
    pub fn host_room(&self) -> Result<Option<(u64, u64)>> {
        backing::room(self.area.file(), self.backing)
    }

    /// Leaves the mapping out of children that this process forks: a child that touches it faults.
    pub fn keep_from_children(&self) {
        self.area.keep_from_children();
    }

    /// Ends this process's access to the file by this mapping at once. The mapping becomes private zeros, with which a
    /// copy under way continues, and the descriptor becomes `instead`. The caller checks after each copy whether the
    /// bytes count.
    pub fn withdraw(&self, instead: BorrowedFd<'_>) {
        self.area.withdraw(instead);
    }

    pub(super) fn reserve_space(&self, span: Span) -> Result<()> {
        self.check(span, self.writable);
        if self.backing == Backing::Shm && self.huge_pages.hold(span) {
            // It was promised when it was made huge. To ask again is no small thing: before the kernel makes a page huge
            // it waits for work on every processor, which other threads keep from it.
            return Ok(());
        }
        // The order counts: of storage in small pages the kernel makes huge pages fifty times as slowly as of holes.
        let filled = self.make_huge(span);
        let promised = self.allocate_span(libc::FALLOC_FL_KEEP_SIZE, span);
        match (self.backing, promised) {
            (_, Err(why)) if !is_unsupported(&why) => {
                filled.into_iter().try_for_each(|hole| self.release_space(hole))?;
                Err(Error::io(self.about("reserving", span), why))
            }
            // On a file this dirties every page, so only where the host takes no other order.
            (Backing::File, Err(_)) | (Backing::Shm | Backing::Hugetlb | Backing::Anon, _) => {
                self.touch(span, Right::Write)
            }
            (Backing::File | Backing::Dax, _) => Ok(()),
        }
    }

    /// Releases whole pages only. If the host cannot punch holes, the bytes stay.
    pub(super) fn release_space(&self, span: Span) -> Result<()> {
        self.check(span, self.writable);
        let unit = self.area.page_bytes();
        let first = span.at.next_multiple_of(unit);
        let last = (span.at + span.len) / unit * unit;
        if first >= last {
            return Ok(());
        }
        let pages = Span::new(first, last - first);
        (first / HUGE * HUGE..last).step_by(HUGE as usize).for_each(|at| self.huge_pages.note(at, false));
        match self.allocate_span(libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE, pages) {
            Err(why) if !is_unsupported(&why) => Err(Error::io(self.about("releasing", pages), why)),
            _ => Ok(()),
        }
    }

    pub(super) fn share_span(&self, span: Span) -> Result<Shared> {
        self.check(span, self.area.len());
        let path = format!("/proc/self/fd/{}", self.area.file().as_raw_fd());
        let reopened = OpenOptions::new().read(true).write(self.writable > 0).open(&path);
        let fd = reopened.map_err(|why| Error::io(format!("reopening {}", self.name), why))?.into();
        Ok(Shared { fd, offset: self.area.file_offset(span.at) })
    }

    /// Where pages are huge: sending references to many small ones takes longer than to copy them. In tests always.
    pub(super) fn lend_span(&self, span: Span) -> Option<Lent<'_>> {
        self.check(span, self.area.len());
        let is_fast = self.backing == Backing::Anon || self.huge_pages.hold(span);
        let at = self.area.file_offset(span.at);
        is_fast.then(|| Lent { file: self.area.file().as_fd(), at, len: span.len })
    }

    fn allocate_span(&self, mode: i32, span: Span) -> io::Result<()> {
        allocate(self.area.file(), mode, Span::new(self.area.file_offset(span.at), span.len))
    }

    /// Waits until the host's disk has the pages of `span`.
    pub(super) fn sync_pages(&self, span: Span) -> io::Result<()> {
        let pages = self.area.pages_of(span);
        let pages =
            if planted!("memory: half of a span is synced") { Span::new(pages.at, pages.len / 2) } else { pages };
        let at = if planted!("memory: later pages are synced") { pages.at + 2 * pages.len } else { pages.at };
        let pages = Span::new(at, pages.len);
        let window = self.shield.open(&self.area, pages, Right::Read);
        // SAFETY: the window covers the pages, and the call changes no byte.
        let done = unsafe { libc::msync(window.ptr().cast(), pages.len as usize, libc::MS_SYNC) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Touches the pages of `span` for accesses of this `right`.
    fn touch(&self, span: Span, right: Right) -> Result<()> {
        if span.len == 0 {
            return Ok(());
        }
        let pages = self.area.pages_of(span);
        let advice = if right == Right::Read { libc::MADV_POPULATE_READ } else { libc::MADV_POPULATE_WRITE };
        let window = self.shield.open(&self.area, pages, right);
        let Err(why) = advise(window.ptr(), pages.len, advice) else { return Ok(()) };
        match why.raw_os_error() {
            // EFAULT is what a page that would raise SIGBUS gives here; EINVAL is a kernel before 5.14.
            Some(libc::EFAULT | libc::ENOMEM) => Err(Error::NoSpace(self.about("touching", pages))),
            Some(libc::EINVAL) => Ok(()),
            _ => Err(Error::io(self.about("touching", pages), why)),
        }
    }

    /// Makes huge pages where `span` fills them; returns the holes that it filled. tmpfs gives small pages by default, and a
    /// copy at a random place then waits for the tables of its page. The kernel makes a huge page wherever it holds one small
    /// page, so only one page is touched before. Pages stay small if the kernel refuses.
    fn make_huge(&self, span: Span) -> Vec<Span> {
        if self.backing != Backing::Shm || !self.huge_pages.are_wanted() || span.len == 0 {
            return Vec::new();
        }
        let pages = self.area.pages_of(span);
        let (first, end) = (pages.at.next_multiple_of(HUGE), (pages.at + pages.len) / HUGE * HUGE);
        let whole = (first..end).step_by(HUGE as usize).map(|at| Span::new(at, HUGE));
        let wanted: Vec<Span> = whole.filter(|page| !self.huge_pages.hold(*page)).collect();
        let holes = wanted.iter().copied().filter(|page| self.is_hole(*page)).collect();
        for page in &wanted {
            // Without that the kernel refuses the huge page, which is noted below.
            let _ = self.touch(Span::new(page.at, self.area.page_bytes()), Right::Write);
        }
        for run in wanted.chunk_by(|one, next| one.end() == Some(next.at)) {
            // One call for many: in each the kernel waits for every processor.
            let are_huge = self.collapse(Span::new(run[0].at, run.len() as u64 * HUGE));
            run.iter().for_each(|page| self.huge_pages.note(page.at, are_huge || self.collapse(*page)));
        }
        holes
    }

    /// Whether all of `pages` lie in huge pages now.
    fn collapse(&self, pages: Span) -> bool {
        advise(self.area.base().wrapping_add(pages.at as usize), pages.len, MADV_COLLAPSE).is_ok()
    }

    /// Whether the file holds nothing in `span`.
    fn is_hole(&self, span: Span) -> bool {
        let at = self.area.file_offset(span.at) as libc::off_t;
        // SAFETY: the call touches no memory, and nothing reads or writes by this descriptor's position.
        let data = unsafe { libc::lseek(self.area.file().as_raw_fd(), at, libc::SEEK_DATA) };
        match data {
            -1 => io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO),
            data => data >= at + span.len as libc::off_t,
        }
    }

    fn about(&self, doing: &str, span: Span) -> String {
        format!("{doing} {} bytes at {} of {}", span.len, span.at, self.name)
    }
}

/// Gives advice that changes no byte about `len` bytes of whole pages at `at`, in a mapping or a window of this module's.
fn advise(at: *mut u8, len: u64, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the caller's pages are mapped, and what is stored in them stays.
    if unsafe { libc::madvise(at.cast(), len as usize, advice) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `fallocate` of bytes of the file itself.
pub(super) fn allocate(file: &File, mode: i32, span: Span) -> io::Result<()> {
    let (at, len) = (span.at as libc::off_t, span.len as libc::off_t);
    if len == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: the call works on a descriptor of ours and touches no memory.
        if unsafe { libc::fallocate(file.as_raw_fd(), mode, at, len) } == 0 {
            return Ok(());
        }
        let why = io::Error::last_os_error();
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
}

pub(super) fn is_unsupported(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::ENODEV | libc::EINVAL))
}

/// The resident part of an address range.
#[derive(Default)]
struct Resident {
    all_kib: u64,
    huge_kib: u64,
}

impl Resident {
    /// Sums the mappings of `smaps` that start within `addresses` (a guard may have split one).
    fn of(smaps: &str, addresses: Span) -> Self {
        let (mut sum, mut ours) = (Self::default(), false);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
            if let Some((start, _)) = first.split_once('-') {
                let start = u64::from_str_radix(start, 16).unwrap_or(0);
                ours = start.checked_sub(addresses.at).is_some_and(|at| at < addresses.len);
            }
            let kib = second.parse().unwrap_or(0);
            match first {
                "Rss:" if ours => sum.all_kib += kib,
                "ShmemPmdMapped:" | "FilePmdMapped:" if ours => sum.huge_kib += kib,
                _ => {}
            }
        }
        sum
    }
}
