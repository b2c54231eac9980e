//! How the kernel comes to know an offset that is here.
//!
//! To set the kernel's offset and to say whose it is are two steps. Whoever read the offset, and sets the kernel's when another
//! thread has given it away meanwhile, takes back what was written since. So one thread at a time does both (LD2), and all that
//! is set so is set while the offset is here. What the kernel does at its own offset while that is here, as to append, and
//! learning where that ended are two steps as well, and one turn. Reads and writes at a place of their own wait for nothing:
//! who hands over sees that they moved the offset, and sets it again.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::{Description, KERNELS};
use crate::leased_file::wait_briefly;
use crate::{known_files, real, reentrancy, signals};

/// How often whoever has the turn is waited for a little: ten seconds in all, more where a thousand threads share a processor.
/// That is for one system call of a thread that is inside, so no handler keeps it (but of a trap) and nobody cancels it; a
/// file's owner may, and in a child the thread may not be there (LD5).
const PATIENCE: u32 = if cfg!(test) { 20 } else { 700 };

impl Description {
    /// `work`, which sets or moves the kernel's offset, while no other thread sets it.
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

    /// `work`, for which the kernel moves an offset that is here, in turn; the program learns what went wrong with it. It waits
    /// for nobody but a file's owner, amid which people can end the program.
    pub(super) fn by_kernel<T>(&self, work: impl FnOnce() -> T) -> T {
        // What is in the kernel nobody sets. A handler of a trap would wait for what it interrupted (LD5).
        if !self.has_offset() || reentrancy::is() {
            return work();
        }
        let (done, errno) = self.in_turn(|| (signals::with_fatal_signals(work), real::errno()));
        real::set_errno(errno);
        done
    }

    /// The kernel's offset is `at`.
    fn set(fd: c_int, at: u64) {
        #[cfg(test)]
        super::tests::interrupt();
        real::moved(fd, at as i64, libc::SEEK_SET);
    }

    /// Gives the offset to the kernel, by `fd`; from now on it is `whose`.
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

    /// Sets the kernel's offset to the one that is here, which stays here; where that was.
    fn copy_to_kernel(&self, fd: c_int) -> Option<u64> {
        self.offset()?;
        self.in_turn(|| self.set_to_ours(fd))
    }

    /// The same for who has the turn.
    fn set_to_ours(&self, fd: c_int) -> Option<u64> {
        let at = self.offset()?;
        Self::set(fd, at);
        Some(at)
    }

    /// Lets the kernel know the offset, which stays here.
    pub fn show(&self, fd: c_int) {
        known_files::query_size(fd);
        self.copy_to_kernel(fd);
    }

    /// A `call` that uses the offset, by the kernel; it waits for nobody but the file's owner.
    pub fn lend<T>(&self, fd: c_int, call: impl FnOnce() -> T) -> T {
        known_files::query_size(fd);
        self.by_kernel(|| self.lent(fd, self.set_to_ours(fd), call))
    }

    /// The same for one that may wait for who reads a pipe or a socket: neither signals nor other threads wait for that.
    pub fn lend_unserialized<T>(&self, fd: c_int, call: impl FnOnce() -> T) -> T {
        known_files::query_size(fd);
        self.lent(fd, self.copy_to_kernel(fd), call)
    }

    /// `call`, to which the kernel's offset was set from `before`, if that was here.
    fn lent<T>(&self, fd: c_int, before: Option<u64>, call: impl FnOnce() -> T) -> T {
        let done = call();
        if let Some(before) = before {
            self.moves(before, real::moved(fd, 0, libc::SEEK_CUR).max(0) as u64);
        }
        done
    }

    /// `fd` is about to be closed: who writes by it meanwhile finds the offset in the kernel.
    pub fn before_close(&self, fd: c_int) {
        if self.entries.load(Ordering::Relaxed) <= 1 {
            self.move_to_kernel(fd, KERNELS);
        } else {
            self.copy_to_kernel(fd);
        }
    }
}
