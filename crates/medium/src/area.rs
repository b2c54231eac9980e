//! A stretch of a file in the address space, and nothing more: who may touch it is the guard's affair.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::Span;

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
}

impl Area {
    /// Maps part of `file`.
    pub fn map(file: File, plan: &AreaPlan) -> io::Result<Self> {
        let base = map(&file, plan.span, plan.rights, plan.flags)?;
        let Span { at: offset, len } = plan.span;
        // SAFETY: advice on the mapping just made. A core dump shall not hold a whole pool; a refusal is harmless.
        unsafe { libc::madvise(base.cast(), len as usize, libc::MADV_DONTDUMP) };
        Ok(Self { base, len, file, offset, flags: plan.flags, page_bytes: plan.page_bytes })
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

    /// The pages that `span` touches.
    pub fn pages_of(&self, span: Span) -> Span {
        let first = span.at - span.at % self.page_bytes;
        Span::new(first, (span.at + span.len.max(1) - first).next_multiple_of(self.page_bytes))
    }

    /// Maps whole pages of the area a second time; the caller unmaps them.
    pub fn map_again(&self, pages: Span, rights: i32) -> io::Result<*mut u8> {
        map(&self.file, Span::new(self.file_offset(pages.at), pages.len), rights, self.flags)
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is this area's alone and nothing borrows it any more.
        unsafe { libc::munmap(self.base.cast(), self.len as usize) };
    }
}

fn map(file: &File, span: Span, rights: i32, flags: i32) -> io::Result<*mut u8> {
    // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
    let base = unsafe {
        libc::mmap(ptr::null_mut(), span.len as usize, rights, flags, file.as_raw_fd(), span.at as libc::off_t)
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    Ok(base.cast())
}
