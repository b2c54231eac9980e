//! The first waist: persistent memory.
//!
//! Every implementation keeps these rules, and the lying one in `crash` tests callers against them:
//!
//! - M1. Data that a thread stored by a scheme that is durable at a fence, or stored and flushed, is durable once *that
//!   thread* has fenced, if [`Memory::fence_is_durable`]. Otherwise it is durable once a later [`Memory::barrier`] of
//!   any thread, or [`Memory::drain_range`] of its place, has returned.
//! - M2. Before that, a crash keeps any prefix of the cached stores to one 64-byte line, and any subset of the 8-byte
//!   words of non-temporal stores; lines are unordered. If the fence is not durable, a crash keeps any subset of the
//!   8-byte words stored since their last barrier, fences or not.
//! - M3. An aligned 8-byte word is never torn.
//! - M4. A barrier that fails leaves the memory poisoned: every later barrier fails until the memory is opened again.
//!
//! The caller orders concurrent access to the same bytes. Only the word functions are atomic (load: acquire, store:
//! release).

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::{Error, Fletcher, Result, Scheme, Span, Survival};

/// Part of a memory as a file descriptor, which another process can map.
#[derive(Debug)]
pub struct Shared {
    /// A reopened descriptor, which shares no lock and no offset with the owner's.
    pub fd: OwnedFd,
    /// Offset of the part in the file, in bytes.
    pub offset: u64,
}

/// Bytes of a file that do not change, for the kernel to send from.
#[derive(Clone, Copy, Debug)]
pub struct Lent<'owner> {
    /// The file.
    pub file: BorrowedFd<'owner>,
    /// Offset of the bytes in the file.
    pub at: u64,
    /// Number of the bytes.
    pub len: u64,
}

/// The borrower of lent bytes.
pub trait Borrower: Send + Sync {
    /// Returns true if the borrower needs the bytes no longer; from then on it always does. Called by any thread that
    /// wants the space for something else, and returns at once.
    fn has_returned(&self) -> bool;
}

/// Persistent memory. Offsets and lengths are bytes. An access outside `0 .. size()` panics.
pub trait Memory: Send + Sync {
    /// Returns the size in bytes.
    fn size(&self) -> u64;

    /// Returns the failures that the memory survives, and why.
    fn survival(&self) -> Survival;

    /// Returns true if a fence makes this thread's flushed and non-temporal stores durable. Otherwise (a file) only
    /// [`Memory::barrier`] does, and only a barrier between two stores orders them for a crash.
    fn fence_is_durable(&self) -> bool;

    /// Copies bytes out.
    fn load(&self, at: u64, into: &mut [u8]);

    /// Copies bytes out. Returns their CRC-32 (as zlib computes it) if the copy can compute it for less than a second
    /// pass.
    fn load_summed(&self, at: u64, into: &mut [u8]) -> Option<u32> {
        self.load(at, into);
        None
    }

    /// Fills `into` with zeros as a load of space that was never written. An emulated medium charges a load for it.
    fn load_hole(&self, into: &mut [u8]) {
        into.fill(0);
    }

    /// Copies bytes in by `how`. They become durable by rule M1.
    fn store(&self, at: u64, from: &[u8], how: Scheme);

    /// Copies bytes in as by [`Scheme::Nt`] and returns their sum, if offset and length are whole lines and the copy
    /// can compute it. Otherwise stores nothing.
    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        let _ = (at, from);
        None
    }

    /// Fills with zeros by `how`.
    fn zero(&self, span: Span, how: Scheme);

    /// Announces that the page at `at` is stored to next. A hint, for any `at`, without effect on results.
    #[inline]
    fn expect_store(&self, at: u64) {
        let _ = at;
    }

    /// Reads the aligned 8-byte word at `at` (little-endian, acquire).
    fn load_word(&self, at: u64) -> u64;

    /// Reads the aligned words from `at` on, one after the other, each like [`Memory::load_word`].
    fn load_words(&self, at: u64, into: &mut [u64]) {
        into.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = self.load_word(at));
    }

    /// Writes the aligned 8-byte word at `at` (release). The word stays in the cache: flush it, then fence.
    fn store_word(&self, at: u64, value: u64);

    /// Writes the pieces one after the other, through one window if possible. Each piece is an aligned offset and whole
    /// words, which are written in any order like [`Memory::store_word`]. The words stay in the cache: flush them, then
    /// fence.
    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        for (at, from) in pieces {
            let words = from.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            (*at..).step_by(8).zip(words).for_each(|(at, word)| self.store_word(at, word));
        }
    }

    /// Starts write-back of the lines of `span`, by whichever thread they were stored.
    fn flush(&self, span: Span);

    /// Waits until this thread's flushed and non-temporal stores are in the persistence domain. Also makes non-temporal
    /// stores visible to other threads in order: fence before a lock or a completion is released.
    fn fence(&self);

    /// Makes durable every store of any thread that happened before this call, also the stores that `Writeback` and
    /// `WritebackAll` left in the cache.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] if the host cannot take the data: all data that was not durable may be lost.
    /// From then on [`Error::Poisoned`] (M4).
    fn barrier(&self) -> Result<()>;

    /// Makes durable everything that the memory holds, also data that a killed process stored without making it
    /// durable. All processes see that data, but a power failure would lose it. Recovery calls this before it builds on
    /// the data.
    ///
    /// # Errors
    /// The errors of [`Memory::barrier`].
    fn inherit(&self) -> Result<()> {
        self.flush(Span::new(0, self.size()));
        self.barrier()
    }

    /// Asks the host for storage behind `span`, so that no later store to it can fail.
    ///
    /// # Errors
    /// [`Error::NoSpace`] if the host is full, [`Error::Io`] if it refuses for another reason.
    fn reserve(&self, span: Span) -> Result<()> {
        let _ = span;
        Ok(())
    }

    /// Tells the host that the content of `span` is not needed; it reads as zeros or as before.
    ///
    /// # Errors
    /// [`Error::Io`] if the host refuses.
    fn release(&self, span: Span) -> Result<()> {
        let _ = span;
        Ok(())
    }

    /// Returns `span` as a descriptor that another process can map.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the memory cannot be shared, [`Error::Io`] if the file cannot be opened again.
    fn share(&self, span: Span) -> Result<Shared> {
        let _ = span;
        Err(Error::Unsupported("this memory cannot be shared".into()))
    }

    /// Returns the place of `span` in a file from which the kernel sends without a copy. Returns `None` if there is
    /// none, or if a load does more than copy.
    fn lend(&self, span: Span) -> Option<Lent<'_>> {
        let _ = span;
        None
    }

    /// Flushes `span`, then waits until it is durable: by a fence if that is enough, else by a barrier.
    ///
    /// # Errors
    /// The errors of [`Memory::drain`].
    fn persist(&self, span: Span) -> Result<()> {
        self.flush(span);
        self.drain()
    }

    /// Waits until this thread's flushed stores, and its stores by a scheme that is durable at a fence, are durable.
    ///
    /// # Errors
    /// None if a fence is durable; else the errors of [`Memory::barrier`].
    fn drain(&self) -> Result<()> {
        self.fence();
        if self.fence_is_durable() { Ok(()) } else { self.barrier() }
    }

    /// Drains the stores to `span` only. If a fence is not durable, other bytes need not go to the disk now.
    ///
    /// # Errors
    /// The errors of [`Memory::drain`].
    fn drain_range(&self, span: Span) -> Result<()> {
        let _ = span;
        self.drain()
    }
}
