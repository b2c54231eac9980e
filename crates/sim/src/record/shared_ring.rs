//! A ring of words that the recorded program and the recording process have both mapped.
//!
//! The recording plugin, which is compiled separately, includes this file. So it uses nothing but the standard library,
//! and the two C functions that the standard library does not offer.
//!
//! ```text
//! word  0      number of words put so far
//!       1      1 if the program has started another process
//!       8      number of words taken so far
//!      16..    the words, in a circle
//! ```
//!
//! 1. A word is stored before the number of words put counts it, and read before the number of words taken counts it.
//! 2. No part of the ring is a descriptor of the program, which opens, closes and writes to any descriptor it likes.
#![allow(unsafe_code, reason = "mmap and munmap, and atomic words of memory that a recorded program shares")]
#![allow(dead_code)] // one side puts, the other takes

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// Words that may wait: so many that a reader which sleeps for a moment never blocks the program.
const ROOM: usize = 1 << 20;

const PUT: usize = 0;
const FORKED: usize = 1;
const TAKEN: usize = 8;
const WORDS: usize = 16;

/// Bytes of the mapping.
pub const BYTES: usize = (WORDS + ROOM) * 8;

/// The mapping of one side. Only one thread at a time puts, and only one takes.
pub struct SharedRing(NonNull<AtomicU64>);

// SAFETY: only atomic words are reached through it.
unsafe impl Send for SharedRing {}

unsafe extern "C" {
    fn mmap(at: *mut c_void, bytes: usize, access: c_int, how: c_int, file: c_int, from: i64) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
}

const READ_AND_WRITE: c_int = 1 | 2;
const SHARED: c_int = 1;

impl SharedRing {
    /// Maps a file of [`BYTES`] bytes, which may then be closed.
    ///
    /// # Errors
    /// The file is shorter, or cannot be mapped.
    pub fn map(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() < BYTES as u64 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file is too short"));
        }
        // SAFETY: a new mapping overlaps nothing.
        let at = unsafe { mmap(std::ptr::null_mut(), BYTES, READ_AND_WRITE, SHARED, file.as_raw_fd(), 0) };
        let mapped = NonNull::new(at.cast()).filter(|_| at.addr() != usize::MAX);
        mapped.map(Self).ok_or_else(io::Error::last_os_error)
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < WORDS + ROOM);
        // SAFETY: the mapping has so many words and lives as long as `self`; both sides access the words as atomic
        // ones.
        unsafe { self.0.add(at).as_ref() }
    }

    /// Puts the first words of `words`. Returns how many there was room for.
    pub fn put(&self, words: &[u64]) -> usize {
        let (put, taken) = (self.word(PUT).load(Ordering::Relaxed), self.word(TAKEN).load(Ordering::Acquire));
        let waiting = put.wrapping_sub(taken) as usize;
        let count = ROOM.saturating_sub(waiting).min(words.len());
        for (at, word) in words[..count].iter().enumerate() {
            self.word(WORDS + (put as usize + at) % ROOM).store(*word, Ordering::Relaxed);
        }
        self.word(PUT).store(put.wrapping_add(count as u64), Ordering::Release);
        count
    }

    /// Takes the next words, as many as are there and `into` has room for. Returns how many.
    pub fn take(&self, into: &mut [u64]) -> usize {
        let (put, taken) = (self.word(PUT).load(Ordering::Acquire), self.word(TAKEN).load(Ordering::Relaxed));
        let count = (put.wrapping_sub(taken) as usize).min(ROOM).min(into.len());
        for (at, word) in into[..count].iter_mut().enumerate() {
            *word = self.word(WORDS + (taken as usize + at) % ROOM).load(Ordering::Relaxed);
        }
        self.word(TAKEN).store(taken.wrapping_add(count as u64), Ordering::Release);
        count
    }

    /// Records that the program has started another process.
    pub fn set_forked(&self) {
        self.word(FORKED).store(1, Ordering::Relaxed);
    }

    /// Returns true if the program has started another process.
    pub fn has_forked(&self) -> bool {
        self.word(FORKED).load(Ordering::Relaxed) != 0
    }
}

impl Drop for SharedRing {
    fn drop(&mut self) {
        // SAFETY: `map` mapped these bytes, and no reference into them outlives `self`.
        unsafe { munmap(self.0.as_ptr().cast(), BYTES) };
    }
}
