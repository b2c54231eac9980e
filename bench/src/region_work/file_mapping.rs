//! Raw memory of this process as a program uses it: plain loads and stores, without a lock and without a guard.
#![allow(unsafe_code, reason = "a program's own loads and stores go to raw memory, and msync takes an address")]

use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::AsRawFd;
use std::ptr;

use ferrite_memory::{Span, TrapRegion, copy};

use crate::{Error, Result};

const PAGE: u64 = 4096;

/// A mapping of a file, or of new memory.
pub struct FileMapping {
    base: *mut u8,
    len: u64,
}

impl FileMapping {
    /// Maps `len` bytes of `file`, shared.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn map(file: &File, len: u64) -> Result<Self> {
        Self::of_system(file.as_raw_fd(), len, libc::MAP_SHARED)
    }

    /// Maps `len` bytes of new memory.
    ///
    /// # Errors
    /// [`Error::Io`] if the system refuses.
    pub fn anonymous(len: u64) -> Result<Self> {
        Self::of_system(-1, len, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)
    }

    fn of_system(fd: i32, len: u64, flags: i32) -> Result<Self> {
        let rights = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice replaces nothing.
        let base = unsafe { libc::mmap(ptr::null_mut(), len as usize, rights, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(Error::io(format!("mapping {len} bytes"))(io::Error::last_os_error()));
        }
        Ok(Self { base: base.cast(), len })
    }

    /// The bytes.
    pub fn bytes(&self) -> RawBytes<'_> {
        RawBytes { base: self.base, len: self.len, owner: PhantomData }
    }

    /// Makes the pages of `span` durable on the disk of the file.
    ///
    /// # Errors
    /// [`Error::Io`] if the disk fails.
    pub fn sync(&self, span: Span) -> Result<()> {
        assert!(span.fits(self.len), "within the mapping");
        let first = span.at / PAGE * PAGE;
        let len = (span.at + span.len - first) as usize;
        // SAFETY: a range of this mapping; the call changes no byte of it.
        let synced = unsafe { libc::msync(self.base.wrapping_add(first as usize).cast(), len, libc::MS_SYNC) };
        if synced == 0 { Ok(()) } else { Err(Error::io("syncing a mapped file")(io::Error::last_os_error())) }
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and what `bytes` returned does not outlive it.
        unsafe { libc::munmap(self.base.cast(), self.len as usize) };
    }
}

/// The bytes of a mapping or a region. One thread of the program uses them.
#[derive(Clone, Copy)]
pub struct RawBytes<'a> {
    base: *mut u8,
    len: u64,
    owner: PhantomData<&'a ()>,
}

impl<'a> RawBytes<'a> {
    /// The bytes of `region`.
    pub fn of_region(region: &'a TrapRegion) -> Self {
        Self { base: region.base(), len: region.size(), owner: PhantomData }
    }

    fn place(self, at: u64, len: usize) -> *mut u8 {
        assert!(Span::new(at, len as u64).fits(self.len), "within the memory");
        self.base.wrapping_add(at as usize)
    }

    /// Loads bytes. Waits while a page faults.
    pub fn load(self, at: u64, into: &mut [u8]) {
        // SAFETY: within memory that is mapped for 'a; `into` is no part of it, and only this thread stores there.
        unsafe { copy::plain(into.as_mut_ptr(), self.place(at, into.len()), into.len()) };
    }

    /// Stores bytes.
    pub fn store(self, at: u64, from: &[u8]) {
        // SAFETY: as in `load`; `from` is no part of the memory.
        unsafe { copy::plain(self.place(at, from.len()), from.as_ptr(), from.len()) };
    }

    /// Stores bytes past the cache, and fences.
    pub fn store_durable(self, at: u64, from: &[u8]) {
        // SAFETY: as in `store`.
        unsafe { copy::store_nt(self.place(at, from.len()), from.as_ptr(), from.len()) };
        copy::fence();
    }
}
