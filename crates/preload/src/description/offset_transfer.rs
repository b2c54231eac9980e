//! The transfer of an offset between this library and the kernel.
//!
//! Setting the kernel's offset and recording its owner are two steps. A thread that read the offset, and sets the
//! kernel's after another thread has given it away, would take back later writes. So one thread at a time does both
//! (LD2), and only while the offset is here. A kernel call that moves the offset while it is here, such as an append,
//! and reading its end are two steps as well, done in one turn. Reads and writes at places of their own never wait: the
//! thread that transfers sees that they moved the offset, and sets it again.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use ferrite_memory::planted;

use super::{Description, KERNELS};
use crate::leased_file::wait_briefly;
use crate::{known_files, real, reentrancy, signals};

/// Short waits for the thread that has the turn: ten seconds in all, more if a thousand threads share a processor. That
/// is one system call of a thread in this library, which no handler except a trap's interrupts and no thread cancels. A
/// file's owner may delay it, and in a child the thread may not exist (LD5).
const PATIENCE: u32 = if cfg!(test) { 20 } else { 700 };

impl Description {
    /// Runs `work`, which sets or moves the kernel's offset, while no other thread sets it.
    fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = reentrancy::enter();
        let is_ours = || !self.is_setting_offset.swap(true, Ordering::Acquire);
        let has_turn = (0..PATIENCE).any(|_| wait_briefly(is_ours));
        let done = work();
        if has_turn {
            self.is_setting_offset.store(false, Ordering::Release);
        }
        done
    }

    /// Runs `work`, in which the kernel moves an offset that is here, in turn; the program gets its `errno`. It waits
    /// for a file's owner only, and a user can end the program during that.
    pub(super) fn by_kernel<T>(&self, work: impl FnOnce() -> T) -> T {
        // No thread sets an offset that the kernel has. A trap's handler would wait for the code that it interrupted
        // (LD5).
        if !self.has_offset() || reentrancy::is() {
            return work();
        }
        let (done, errno) = self.in_turn(|| (signals::with_fatal_signals(work), real::errno()));
        real::set_errno(errno);
        done
    }

    /// Sets the kernel's offset to `at`.
    fn set(fd: c_int, at: u64) {
        // A test stops the thread here.
        let _ = planted!("preload: thread stops before it sets the offset");
        real::moved(fd, at as i64, libc::SEEK_SET);
    }

    /// Gives the offset to the kernel, by `fd`, and records `whose` it is.
    pub(super) fn move_to_kernel(&self, fd: c_int, whose: u64) {
        if !self.has_offset() {
            return;
        }
        self.in_turn(|| {
            while let Some(at) = self.offset() {
                Self::set(fd, at);
                if self.moves(at, whose) {
                    break;
                }
            }
        });
    }

    /// Sets the kernel's offset to the one here, which stays here. Returns it.
    fn copy_to_kernel(&self, fd: c_int) -> Option<u64> {
        self.offset()?;
        self.in_turn(|| self.set_to_ours(fd))
    }

    /// Sets the kernel's offset for a thread that has the turn.
    fn set_to_ours(&self, fd: c_int) -> Option<u64> {
        let at = self.offset()?;
        Self::set(fd, at);
        Some(at)
    }

    /// Shows the offset to the kernel; it stays here.
    pub fn show(&self, fd: c_int) {
        known_files::query_size(fd);
        self.copy_to_kernel(fd);
    }

    /// Runs a kernel call that uses the offset; it waits for the file's owner only.
    pub fn lend<T>(&self, fd: c_int, call: impl FnOnce() -> T) -> T {
        known_files::query_size(fd);
        self.by_kernel(|| self.lent(fd, self.set_to_ours(fd), call))
    }

    /// Runs a kernel call that may wait for the reader of a pipe or a socket: neither signals nor other threads wait
    /// for it.
    pub fn lend_unserialized<T>(&self, fd: c_int, call: impl FnOnce() -> T) -> T {
        known_files::query_size(fd);
        self.lent(fd, self.copy_to_kernel(fd), call)
    }

    /// Runs `call` after the kernel's offset was set from `before`, if it was here.
    fn lent<T>(&self, fd: c_int, before: Option<u64>, call: impl FnOnce() -> T) -> T {
        let done = call();
        if let Some(before) = before {
            self.moves(before, real::moved(fd, 0, libc::SEEK_CUR).max(0) as u64);
        }
        done
    }

    /// Prepares for closing `fd`: a concurrent writer finds the offset in the kernel.
    pub fn before_close(&self, fd: c_int) {
        if self.entries.load(Ordering::Relaxed) <= 1 {
            self.move_to_kernel(fd, KERNELS);
        } else {
            self.copy_to_kernel(fd);
        }
    }
}
