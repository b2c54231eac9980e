//! The first waist: what persistent memory is.
//!
//! The rules every implementation keeps, and the lying one in `crash` tests callers against:
//!
//! - M1. What a thread stored by a scheme that settles at a fence, or stored and flushed, is durable once *that
//!   thread* has fenced, if [`Memory::fence_is_durable`]; else once any thread's later [`Memory::barrier`] returned, or
//!   [`Memory::settle_span`] of where it is stored.
//! - M2. Before that, a crash keeps of cached stores to one 64-byte line any prefix, and of non-temporal stores any
//!   subset of 8-byte words; unordered between lines. Where the fence is not durable a crash keeps any subset of
//!   8-byte words stored since the last barrier of them, fences or not.
//! - M3. An aligned 8-byte word is never torn.
//! - M4. A barrier that fails leaves the memory poisoned: every later barrier fails until it is opened again.
//!
//! Concurrent access to the same bytes is the caller's to order, except through the word functions, which are
//! atomic (load: acquire, store: release).

use std::os::fd::OwnedFd;

use crate::{Error, Fletcher, Lent, Result, Scheme, Span, Survival};

/// Part of a memory as a file descriptor, to map elsewhere.
#[derive(Debug)]
pub struct Shared {
    /// A reopened descriptor: it shares no lock and no offset with the owner's.
    pub fd: OwnedFd,
    /// Where the part starts in the file, in bytes.
    pub offset: u64,
}

/// Persistent memory. Offsets and lengths are bytes; an access outside `0 .. size()` is the caller's mistake and panics.
pub trait Memory: Send + Sync {
    /// Bytes there are.
    fn size(&self) -> u64;

    /// Returns which failures it survives, and why.
    fn survival(&self) -> Survival;

    /// Whether a fence makes this thread's flushed and non-temporal stores durable. Where not (a file), only
    /// [`Memory::barrier`] does, and nothing orders two stores for a crash but a barrier between them.
    fn fence_is_durable(&self) -> bool;

    /// Copies bytes out.
    fn load(&self, at: u64, into: &mut [u8]);

    /// Copies bytes out; their CRC-32 (as zlib has it), where it could be had on the way for less than by itself.
    fn load_summed(&self, at: u64, into: &mut [u8]) -> Option<u32> {
        self.load(at, into);
        None
    }

    /// Fills `into` with zeros as a load of space that was never written. An emulated medium charges a load for it.
    fn load_hole(&self, into: &mut [u8]) {
        into.fill(0);
    }

    /// Copies bytes in by `how`. Durable when rule M1 says.
    fn store(&self, at: u64, from: &[u8], how: Scheme);

    /// Copies bytes in as by [`Scheme::Nt`]; the sum of what was stored, where place and length are whole lines and it can be
    /// had on the way. Where not, nothing is stored.
    fn store_summed(&self, at: u64, from: &[u8]) -> Option<Fletcher> {
        let _ = (at, from);
        None
    }

    /// Fills with zeros by `how`.
    fn zero(&self, span: Span, how: Scheme);

    /// Says that the page at `at` is to be stored to next: a hint, for any `at`, of which nothing is promised.
    #[inline]
    fn expect_store(&self, at: u64) {
        let _ = at;
    }

    /// Reads the aligned 8-byte word at `at` (little-endian, acquire).
    fn load_word(&self, at: u64) -> u64;

    /// Reads the aligned words from `at` on, one after the other, each as [`Memory::load_word`] does.
    fn load_words(&self, at: u64, into: &mut [u64]) {
        into.iter_mut().zip((at..).step_by(8)).for_each(|(word, at)| *word = self.load_word(at));
    }

    /// Writes the aligned 8-byte word at `at` (release). Cached: flush it, then fence.
    fn store_word(&self, at: u64, value: u64);

    /// Writes the pieces one after the other, through one window where that can be: each is an aligned place and whole
    /// words, which are written as [`Memory::store_word`] does, in any order. Cached: flush them, then fence.
    fn store_words(&self, pieces: &[(u64, &[u8])]) {
        for (at, from) in pieces {
            let words = from.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            (*at..).step_by(8).zip(words).for_each(|(at, word)| self.store_word(at, word));
        }
    }

    /// Starts write-back of the lines of `span`, whichever thread stored them.
    fn flush(&self, span: Span);

    /// Waits until what this thread flushed or stored non-temporally is in the persistence domain. Also makes
    /// non-temporal stores visible to other threads in order: fence before a lock or a completion is released.
    fn fence(&self);

    /// Makes durable everything stored before by any thread that happened before this call, what `Writeback` and
    /// `WritebackAll` left in the cache included.
    ///
    /// # Errors
    /// [`Error::Io`] or [`Error::NoSpace`] where the host cannot take what was stored: all that was not durable before
    /// may be lost. From then on [`Error::Poisoned`] (M4).
    fn barrier(&self) -> Result<()>;

    /// Makes durable everything that is found here, also what a process that was killed had stored and not made durable.
    /// All processes see that, yet the power takes it back: for whoever recovers, before anything is built on it.
    ///
    /// # Errors
    /// As [`Memory::barrier`].
    fn inherit(&self) -> Result<()> {
        self.flush(Span::new(0, self.size()));
        self.barrier()
    }

    /// Makes the host promise storage behind `span`, so that no store to it can fail later.
    ///
    /// # Errors
    /// [`Error::NoSpace`] where the host has none, [`Error::Io`] where it refuses for another reason.
    fn reserve(&self, span: Span) -> Result<()> {
        let _ = span;
        Ok(())
    }

    /// Tells the host that the content of `span` is not needed; it reads as zeros or as before.
    ///
    /// # Errors
    /// [`Error::Io`] where the host refuses.
    fn release(&self, span: Span) -> Result<()> {
        let _ = span;
        Ok(())
    }

    /// `span` as a descriptor that another process can map.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where it cannot be, [`Error::Io`] where that cannot be opened again.
    fn share(&self, span: Span) -> Result<Shared> {
        let _ = span;
        Err(Error::Unsupported("this memory cannot be shared".into()))
    }

    /// Where the bytes of `span` lie in a file from which the kernel sends without a copy; `None` where they do in none, or
    /// a load does more than to copy.
    fn lend(&self, span: Span) -> Option<Lent<'_>> {
        let _ = span;
        None
    }

    /// Flushes `span`, then waits until it is durable: a fence where that is enough, else a barrier.
    ///
    /// # Errors
    /// As [`Memory::settle`].
    fn persist(&self, span: Span) -> Result<()> {
        self.flush(span);
        self.settle()
    }

    /// Waits until what this thread stored (by a scheme that settles at a fence) or flushed is durable.
    ///
    /// # Errors
    /// None where a fence is durable; else as [`Memory::barrier`].
    fn settle(&self) -> Result<()> {
        self.fence();
        if self.fence_is_durable() { Ok(()) } else { self.barrier() }
    }

    /// As [`Memory::settle`], of what lies in `span` alone: where a fence is not durable, nothing is said of other bytes, which
    /// then need not go to the disk now.
    ///
    /// # Errors
    /// As [`Memory::settle`].
    fn settle_span(&self, span: Span) -> Result<()> {
        let _ = span;
        self.settle()
    }
}
