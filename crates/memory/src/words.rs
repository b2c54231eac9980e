//! Words of DRAM that several processes map: counters and marks that one of them keeps for the others.
//!
//! They are gone with the last process that maps them. Nothing shrinks them (a seal of the kernel's), so no access ever
//! faults; what another process writes there is its affair, and no word is trusted further than its reader says.
#![allow(unsafe_code, reason = "maps words that processes share")]

use std::fs::File;
use std::io::{self, Error as IoError};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64};

use crate::area::{Area, AreaPlan};
use crate::{Error, REQUEST_WORDS, RequestWords, Result, Span};

/// Where the kernel says that a descriptor of such words leads, whosever it is.
pub const SHARED_WORDS_LINK: &str = "/memfd:ferrite-words (deleted)";

/// Shared words, all zero at first: `LEAST` of them, or more.
pub struct SharedWords<const LEAST: usize = 0> {
    base: NonNull<AtomicU64>,
    count: usize,
    area: Area,
}

impl<const LEAST: usize> std::fmt::Debug for SharedWords<LEAST> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedWords").field("count", &self.count).finish_non_exhaustive()
    }
}

// SAFETY: the pointer is the address of a shared mapping of atomics, which any thread may use.
unsafe impl<const LEAST: usize> Send for SharedWords<LEAST> {}
// SAFETY: as above; no method changes the struct.
unsafe impl<const LEAST: usize> Sync for SharedWords<LEAST> {}

impl<const LEAST: usize> SharedWords<LEAST> {
    /// `count` new words.
    ///
    /// # Errors
    /// [`Error::Io`] where the system has no memory or no descriptor left, or `count` is less than `LEAST`.
    pub fn new(count: usize) -> Result<Self> {
        // SAFETY: the name is a C string literal; the call makes a new descriptor.
        let fd = unsafe { libc::memfd_create(c"ferrite-words".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if fd < 0 {
            return Err(Error::last_os("making words to be shared"));
        }
        // SAFETY: the descriptor is fresh and owned by nothing else.
        let file = unsafe { File::from_raw_fd(fd) };
        let failed = |why| Error::io(format!("making {count} words to be shared"), why);
        file.set_len(count as u64 * 8).map_err(failed)?;
        // SAFETY: no pointer is passed.
        if unsafe { libc::fcntl(fd, libc::F_ADD_SEALS, SEALS) } != 0 {
            return Err(failed(IoError::last_os_error()));
        }
        map(file, count).map_err(failed)
    }

    /// The words that another process shares as `fd`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for what is not such words, [`Error::Io`] for what the system refuses, or for too few of them.
    pub fn of(fd: OwnedFd) -> Result<Self> {
        let failed = |why| Error::io("mapping shared words", why);
        let file = File::from(fd);
        // SAFETY: no pointer is passed.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & SEALS != SEALS {
            return Err(Error::Unsupported("what came in the place of shared words may shrink".into()));
        }
        let count = file.metadata().map_err(failed)?.len() / 8;
        map(file, count as usize).map_err(failed)
    }

    /// A descriptor of them for another process.
    ///
    /// # Errors
    /// [`Error::Io`] where no descriptor is left.
    pub fn share(&self) -> Result<OwnedFd> {
        self.area.file().try_clone().map(OwnedFd::from).map_err(|why| Error::io("sharing words", why))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first `LEAST` words: an index that is known to be one of them is not looked at again.
    #[inline(always)]
    pub fn first(&self) -> &[AtomicU64; LEAST] {
        // SAFETY: the mapping has so many words, which was seen to when it was made, and lives as long as `self`; they are
        // only ever used as atomics, and any bits are valid for them.
        unsafe { self.base.cast().as_ref() }
    }

    /// Word `index`; one that is not there is the caller's mistake and panics.
    #[inline]
    pub fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.count, "a word that is not there");
        // SAFETY: within the mapping, which lives as long as `self`; the words are only ever used as atomics, and any
        // bits are valid for them.
        unsafe { self.base.add(index).as_ref() }
    }

    /// Returns the counters in the words from `first` on; `None` if not all of those words exist.
    #[inline]
    pub fn counters(&self, first: usize) -> Option<&RequestWords> {
        if first.checked_add(REQUEST_WORDS).is_none_or(|end| end > self.count) {
            return None;
        }
        // SAFETY: within the mapping, which lives as long as `self`; the counters are only atomics, in the order of the
        // words, and any bits are valid for them.
        Some(unsafe { self.base.add(first).cast().as_ref() })
    }

    /// Byte `index`; one that is not there is the caller's mistake and panics. Words whose bytes are used are not used as
    /// words.
    #[inline]
    pub fn byte(&self, index: usize) -> &AtomicU8 {
        assert!(index < self.count * 8, "a byte that is not there");
        // SAFETY: within the mapping, which lives as long as `self`; the bytes are only ever used as atomics, and any
        // bits are valid for them.
        unsafe { self.base.cast::<AtomicU8>().add(index).as_ref() }
    }

    /// Where word `index` lies in this process.
    pub(crate) fn address(&self, index: usize) -> usize {
        std::ptr::from_ref(self.word(index)) as usize
    }

    /// Leaves them out of children that this process forks: a child that touches them faults.
    pub fn keep_from_children(&self) {
        self.area.keep_from_children();
    }

    /// From now on they are zeros of this process's own, as [`Mapped::withdraw`](crate::Mapped::withdraw) has it.
    pub fn withdraw(&self, instead: BorrowedFd<'_>) {
        self.area.withdraw(instead);
    }
}

/// Unit of their file.
const PAGE_BYTES: u64 = 4096;
const SEALS: i32 = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;

fn map<const LEAST: usize>(file: File, count: usize) -> io::Result<SharedWords<LEAST>> {
    if count < LEAST {
        return Err(IoError::other(format!("there are {count} words, of {LEAST} at least")));
    }
    let (span, rights) = (Span::new(0, count as u64 * 8), libc::PROT_READ | libc::PROT_WRITE);
    let plan = AreaPlan { span, rights, flags: libc::MAP_SHARED, page_bytes: PAGE_BYTES, wants_huge: false };
    let area = Area::map(file, &plan)?;
    let base = NonNull::new(area.base().cast()).ok_or_else(|| IoError::other("the kernel maps at 0"))?;
    Ok(SharedWords { base, count, area })
}

#[cfg(test)]
mod tests;
