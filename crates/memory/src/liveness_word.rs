//! A liveness word: a word that shows other processes whether its process lives. Reading it is one load.
//!
//! The word holds the number of a thread that does nothing else. The kernel has the word on the list of that thread's
//! locks that it marks when the thread ends (`set_robust_list`). So the word changes before any file of the process is
//! closed, also when the process is killed: a process that finds the file locks of another one free also finds its
//! liveness word cleared.
#![allow(unsafe_code, reason = "the kernel's list of locks of a thread")]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::{Error, Result, SharedWords};

/// The bits of the word that hold the thread's number. The kernel clears them when the thread ends.
const THREAD: u64 = 0x3fff_ffff;

/// A liveness word, which is set until this is dropped or the process ends.
#[derive(Debug)]
pub struct LivenessWord {
    words: Arc<SharedWords>,
    word: usize,
    stop: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// The kernel's list of robust locks, with one entry.
#[repr(C)]
struct RobustList {
    first: *const RobustEntry,
    /// From an entry to its lock, in bytes.
    lock_offset: isize,
    pending: *const RobustEntry,
}

#[repr(C)]
struct RobustEntry {
    next: *const RobustEntry,
}

impl LivenessWord {
    /// Sets word `word`, which has no other use.
    ///
    /// # Errors
    /// [`Error::Io`] if no thread can be started, [`Error::Unsupported`] if the kernel has no such list.
    pub fn set<const LEAST: usize>(words: &SharedWords<LEAST>, word: usize) -> Result<Self> {
        // The thread has a mapping of its own, which lives as long as the thread.
        let words = Arc::new(SharedWords::of(words.share()?)?);
        let (ready, is_ready) = channel();
        let (stop, until) = channel();
        let mine = Arc::clone(&words);
        let keeper = thread::Builder::new()
            .name("ferrite-alive".into())
            .spawn(move || keep(&mine, word, &ready, &until))
            .map_err(|why| Error::io("starting the thread of a liveness word", why))?;
        match is_ready.recv() {
            Ok(true) => Ok(Self { words, word, stop: Some(stop), keeper: Some(keeper) }),
            _ => Err(Error::Unsupported("this kernel keeps no list of robust locks".into())),
        }
    }

    /// Returns true if `word` is set: its process lives.
    #[inline]
    pub fn is_alive(word: &AtomicU64) -> bool {
        word.load(Ordering::Acquire) & THREAD != 0
    }

    /// Clears the word for good.
    pub fn clear(&self) {
        self.words.word(self.word).store(0, Ordering::SeqCst);
    }
}

impl Drop for LivenessWord {
    fn drop(&mut self) {
        self.clear();
        drop(self.stop.take());
        if let Some(keeper) = self.keeper.take() {
            // The thread cannot fail.
            let _ = keeper.join();
        }
    }
}

/// Keeps the word set until the other end of `until` is dropped.
fn keep(words: &SharedWords, word: usize, ready: &Sender<bool>, until: &Receiver<()>) {
    let mut entry = RobustEntry { next: ptr::null() };
    let at = &raw mut entry;
    let lock_offset = words.address(word) as isize - at as isize;
    let list = RobustList { first: at, lock_offset, pending: ptr::null() };
    let size = size_of::<RobustList>();
    // SAFETY: list and entry live on this stack until the thread ends; the kernel reads them when it does. The lock is a
    // word of a mapping that `words` keeps. This thread uses no robust lock of the C library's.
    // The last entry leads back to the head, whose first field is an entry.
    let set = unsafe {
        (*at).next = (&raw const list).cast();
        libc::syscall(libc::SYS_set_robust_list, &raw const list, size)
    };
    // SAFETY: no pointer is passed.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) } as u64;
    words.word(word).store(thread & THREAD, Ordering::SeqCst);
    let _ = ready.send(set == 0);
    // Nothing is ever sent.
    let _ = until.recv();
    // SAFETY: an empty list; the kernel looks at this one no more.
    unsafe { libc::syscall(libc::SYS_set_robust_list, ptr::null::<RobustList>(), size) };
    words.word(word).store(0, Ordering::SeqCst);
}

#[cfg(test)]
mod tests;
