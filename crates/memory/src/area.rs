//! A run of a file in the address space. The guard decides which threads may access it.
#![allow(unsafe_code, reason = "mmap and munmap")]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use crate::Span;

/// Bytes of a huge page.
const HUGE: u64 = 2 << 20;

/// A mapping, undone when dropped.
pub(crate) struct Area {
    base: *mut u8,
    len: u64,
    file: File,
    /// Where it starts in the file, in bytes.
    offset: u64,
    /// Flags it was mapped with.
    flags: i32,
    /// Unit in which it can be mapped, in bytes.
    page_bytes: u64,
}

// SAFETY: the pointer is the address of a shared mapping, which any thread may use; what orders accesses to its bytes
// is the caller's affair by the rules of `Memory`.
unsafe impl Send for Area {}
// SAFETY: as above; no method changes the struct.
unsafe impl Sync for Area {}

/// How to map an [`Area`].
pub(crate) struct AreaPlan {
    pub span: Span,
    pub rights: i32,
    pub flags: i32,
    pub page_bytes: u64,
    /// Ask for huge pages on first touch, which tmpfs gives if it is mounted with `huge=advise`.
    pub wants_huge: bool,
}

impl Area {
    /// Maps part of `file`.
    pub fn map(file: File, plan: &AreaPlan) -> io::Result<Self> {
        let base = map_aligned(&file, plan)?;
        let Span { at: offset, len } = plan.span;
        // SAFETY: advice on the mapping just made. A core dump shall not hold a whole pool; a refusal is harmless.
        unsafe {
            libc::madvise(base.cast(), len as usize, libc::MADV_DONTDUMP);
            if plan.wants_huge {
                libc::madvise(base.cast(), len as usize, libc::MADV_HUGEPAGE);
            }
        }
        Ok(Self { base, len, file, offset, flags: plan.flags, page_bytes: plan.page_bytes })
    }

    /// Maps part of `file` over `place`.
    ///
    /// # Safety
    /// What is mapped at `place` is the caller's to replace.
    pub unsafe fn map_over(place: *mut u8, file: File, plan: &AreaPlan) -> io::Result<Self> {
        let AreaPlan { span, rights, flags, page_bytes, wants_huge: _ } = *plan;
        // SAFETY: the caller's promise.
        let base = unsafe { map_at(place, &file, span, rights, flags | libc::MAP_FIXED)? };
        // SAFETY: advice on the mapping just made; a refusal is harmless.
        unsafe { libc::madvise(base.cast(), span.len as usize, libc::MADV_DONTDUMP) };
        Ok(Self { base, len: span.len, file, offset: span.at, flags, page_bytes })
    }

    #[inline]
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    #[inline]
    pub fn len(&self) -> u64 {
        self.len
    }

    pub fn file(&self) -> &File {
        &self.file
    }

    pub fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Where byte `at` of the area is in the file.
    pub fn file_offset(&self, at: u64) -> u64 {
        self.offset + at
    }

    /// The pages that `span` touches, one at least: where it is empty and at the very end, the last one.
    pub fn pages_of(&self, span: Span) -> Span {
        let at = span.at.min(self.len - 1);
        let first = at - at % self.page_bytes;
        Span::new(first, (span.at + span.len - first).max(1).next_multiple_of(self.page_bytes))
    }

    /// Maps whole pages of the area a second time; the caller unmaps them.
    pub fn map_again(&self, pages: Span, rights: i32) -> io::Result<*mut u8> {
        map(&self.file, Span::new(self.file_offset(pages.at), pages.len), rights, self.flags)
    }

    /// Leaves it out of children that this process forks: a child that touches it faults.
    pub fn keep_from_children(&self) {
        // SAFETY: advice on this mapping; if the kernel refuses, children inherit the mapping.
        unsafe { libc::madvise(self.base.cast(), self.len as usize, libc::MADV_DONTFORK) };
    }

    /// Replaces the mapping by private zeros, and the file's descriptor by `instead`. A copy under way continues with
    /// the zeros. It faults if the machine does not overcommit memory and has less left.
    pub fn withdraw(&self, instead: BorrowedFd<'_>) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let put = |rights| {
            // SAFETY: it replaces this mapping alone, whose bytes others change all the time.
            unsafe { libc::mmap(self.base.cast(), self.len as usize, rights, flags, -1, 0) != libc::MAP_FAILED }
        };
        // SAFETY: the descriptor is this area's alone, and stays one that is open.
        let is_out = unsafe { libc::dup3(instead.as_raw_fd(), self.file.as_raw_fd(), libc::O_CLOEXEC) } >= 0;
        if !(put(libc::PROT_READ | libc::PROT_WRITE) || put(libc::PROT_NONE)) || !is_out {
            // The access could not be withdrawn, so the process must not continue.
            std::process::abort();
        }
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this area's alone and nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), self.len as usize) };
    }
}

/// Maps so that a huge page of the file can be one of the mapping: both start at a multiple of its size.
fn map_aligned(file: &File, plan: &AreaPlan) -> io::Result<*mut u8> {
    let len = plan.span.len;
    if len < HUGE || plan.page_bytes >= HUGE || !plan.span.at.is_multiple_of(HUGE) {
        return map(file, plan.span, plan.rights, plan.flags);
    }
    let room = (len + HUGE).next_multiple_of(plan.page_bytes) as usize;
    let nothing = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe { libc::mmap(ptr::null_mut(), room, libc::PROT_NONE, nothing, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let start = start.cast::<u8>();
    let skipped = (start as usize).next_multiple_of(HUGE as usize) - start as usize;
    let mapped = len.next_multiple_of(plan.page_bytes) as usize;
    // SAFETY: within the room that was just made and is ours alone, which it replaces; what is left of the room on both
    // sides is given back.
    unsafe {
        let base = map_at(start.wrapping_add(skipped), file, plan.span, plan.rights, plan.flags | libc::MAP_FIXED);
        if base.is_err() {
            libc::munmap(start.cast(), room);
            return base;
        }
        if skipped > 0 {
            libc::munmap(start.cast(), skipped);
        }
        libc::munmap(start.wrapping_add(skipped + mapped).cast(), room - skipped - mapped);
        base
    }
}

fn map(file: &File, span: Span, rights: i32, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    unsafe { map_at(ptr::null_mut(), file, span, rights, flags) }
}

/// # Safety
/// With `MAP_FIXED`, what is mapped at `place` is the caller's to replace.
unsafe fn map_at(place: *mut u8, file: &File, span: Span, rights: i32, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: the caller's promise; without `MAP_FIXED` it touches nothing that exists.
    let base =
        unsafe { libc::mmap(place.cast(), span.len as usize, rights, flags, file.as_raw_fd(), span.at as libc::off_t) };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}
