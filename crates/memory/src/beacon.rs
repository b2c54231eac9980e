//! A word that says whether a process lives, for others that map it: reading it is one load.
//!
//! The word holds the number of a thread that does nothing else, and the kernel has it on the list of that thread's
//! locks which are to be marked when it ends (`set_robust_list`): killed or not, the word is changed before any file of
//! the process is closed. So who finds the process's locks on files free finds its beacon out.
#![allow(unsafe_code)]

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use crate::{Error, Result, SharedWords};

/// The bits of the word that hold the thread's number: none are left when it has ended.
const THREAD: u64 = 0x3fff_ffff;

/// Lit until it is dropped or the process ends.
#[derive(Debug)]
pub struct Beacon {
    words: Arc<SharedWords>,
    word: usize,
    put_out: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// The kernel's list, with one entry.
#[repr(C)]
struct RobustList {
    first: *const Entry,
    /// From an entry to its lock, in bytes.
    lock_offset: isize,
    pending: *const Entry,
}

#[repr(C)]
struct Entry {
    next: *const Entry,
}

impl Beacon {
    /// Lights word `word`, which nothing else uses.
    ///
    /// # Errors
    /// [`Error::Io`] where no thread can be made, or the kernel keeps no such list.
    pub fn light<const LEAST: usize>(words: &SharedWords<LEAST>, word: usize) -> Result<Self> {
        // A mapping of its own, which lives as long as its thread.
        let words = Arc::new(SharedWords::of(words.share()?)?);
        let (ready, is_ready) = channel();
        let (put_out, until) = channel();
        let mine = Arc::clone(&words);
        let keeper = thread::Builder::new()
            .name("ferrite-beacon".into())
            .spawn(move || keep(&mine, word, &ready, &until))
            .map_err(|why| Error::io("starting the thread of a beacon", why))?;
        match is_ready.recv() {
            Ok(true) => Ok(Self { words, word, put_out: Some(put_out), keeper: Some(keeper) }),
            _ => Err(Error::Unsupported("this kernel keeps no list of robust locks".into())),
        }
    }

    /// Whether `word` is lit.
    #[inline]
    pub fn is_lit(word: &AtomicU64) -> bool {
        word.load(Ordering::Acquire) & THREAD != 0
    }

    /// Puts it out; it stays out.
    pub fn put_out(&self) {
        self.words.word(self.word).store(0, Ordering::SeqCst);
    }
}

impl Drop for Beacon {
    fn drop(&mut self) {
        self.put_out();
        drop(self.put_out.take());
        if let Some(keeper) = self.keeper.take() {
            // It holds nothing that could fail.
            let _ = keeper.join();
        }
    }
}

/// Holds the word for as long as the other end of `until` is there.
fn keep(words: &SharedWords, word: usize, ready: &Sender<bool>, until: &Receiver<()>) {
    let mut entry = Entry { next: ptr::null() };
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
