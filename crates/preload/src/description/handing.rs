//! How the kernel comes to know an offset that is here.
//!
//! To set the kernel's offset and to say whose it is are two steps. Whoever read the offset, and sets the kernel's when another
//! thread has given it away meanwhile, takes back what was written since. So one thread at a time does both (LD2), and all that
//! is set so is set while the offset is here. Reads and writes wait for nothing: who hands over sees that they moved the
//! offset, and sets it again.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use super::{Description, KERNELS};
use crate::file::wait_a_little;
use crate::{inside, real, tracked};

/// How often whoever has the turn is waited for a little: ten seconds in all, more where a thousand threads share a processor.
/// That is for one system call of a thread that is inside, so no handler keeps it (but of a trap) and nobody cancels it; in a
/// child the thread may not be there (LD5).
const PATIENCE: u32 = if cfg!(test) { 20 } else { 700 };

impl Description {
    /// `work`, which sets the kernel's offset, while no other thread does.
    fn in_turn<T>(&self, work: impl FnOnce() -> T) -> T {
        let _inside = inside::enter();
        let is_ours = || !self.is_handing.swap(true, Ordering::Acquire);
        let has_turn = (0..PATIENCE).any(|_| wait_a_little(is_ours));
        let done = work();
        if has_turn {
            self.is_handing.store(false, Ordering::Release);
        }
        done
    }

    /// The kernel's offset is `at`.
    fn set(fd: c_int, at: u64) {
        #[cfg(test)]
        super::tests::come_amid();
        real::moved(fd, at as i64, libc::SEEK_SET);
    }

    /// Gives the offset to the kernel, by `fd`; from now on it is `whose`.
    pub(super) fn hand_over(&self, fd: c_int, whose: u64) {
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
    fn shown(&self, fd: c_int) -> Option<u64> {
        self.offset()?;
        self.in_turn(|| {
            let at = self.offset()?;
            Self::set(fd, at);
            Some(at)
        })
    }

    /// Lets the kernel know the offset, which stays here.
    pub fn show(&self, fd: c_int) {
        tracked::tell_size(fd);
        self.shown(fd);
    }

    /// A `call` that uses the offset, by the kernel.
    pub fn lend<T>(&self, fd: c_int, call: impl FnOnce() -> T) -> T {
        tracked::tell_size(fd);
        let Some(before) = self.shown(fd) else { return call() };
        let done = call();
        self.moves(before, real::moved(fd, 0, libc::SEEK_CUR).max(0) as u64);
        done
    }

    /// `fd` is about to be closed: who writes by it meanwhile finds the offset in the kernel.
    pub fn leave(&self, fd: c_int) {
        if self.entries.load(Ordering::Relaxed) <= 1 {
            self.hand_over(fd, KERNELS);
        } else {
            self.shown(fd);
        }
    }
}
