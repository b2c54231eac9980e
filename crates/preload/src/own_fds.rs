//! This library's own descriptors in the program's table. They are at high numbers, only this library closes them, and
//! a child closes them at once.
//!
//! Unsafe because descriptors are moved and closed by number.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicI32, Ordering};

use crate::{real, signals};

const MOST: usize = 256;
const NONE: c_int = -1;

/// The lowest of them.
static LOWEST: AtomicI32 = AtomicI32::new(c_int::MAX);
static OURS: [AtomicI32; MOST] = [const { AtomicI32::new(NONE) }; MOST];

thread_local! {
    static MAKING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which opens descriptors for this library, by a thread that is inside: no handler of the program opens
/// one during it.
pub fn making<T>(work: impl FnOnce() -> T) -> T {
    let was_making = MAKING.replace(true);
    let done = signals::with_fatal_signals(work);
    MAKING.set(was_making);
    done
}

/// Returns true if this thread's new descriptors are the library's.
pub fn is_making() -> bool {
    MAKING.get()
}

/// Numbers below the limit that are used first.
const ROOM: libc::rlim_t = 128;
const HIGH: libc::rlim_t = 1 << 16;

/// Moves `fd`, which this library opened, to another number and registers it.
pub fn adopt(fd: c_int) -> c_int {
    // SAFETY: this library opened the descriptor, and no other code knows it.
    let moved = unsafe { real::fcntl(fd, libc::F_DUPFD_CLOEXEC, base() as _) };
    let fd = if moved >= 0 {
        // SAFETY: the same descriptor.
        unsafe { real::close(fd) };
        moved
    } else {
        fd
    };
    let taken = |slot: &&AtomicI32| slot.compare_exchange(NONE, fd, Ordering::Relaxed, Ordering::Relaxed).is_ok();
    let _ = OURS.iter().find(taken);
    LOWEST.fetch_min(fd, Ordering::Relaxed);
    fd
}

fn base() -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let high = limit.rlim_cur.min(HIGH);
    high.saturating_sub(ROOM).max(high / 2)
}

pub fn is(fd: c_int) -> bool {
    fd >= LOWEST.load(Ordering::Relaxed) && OURS.iter().any(|slot| slot.load(Ordering::Relaxed) == fd)
}

/// Unregisters `fd`, which the library is about to close.
pub fn forget(fd: c_int) {
    for slot in &OURS {
        let _ = slot.compare_exchange(fd, NONE, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Closes them in a child, which has copies of them.
pub fn close_all() {
    for slot in &OURS {
        let fd = slot.swap(NONE, Ordering::Relaxed);
        if fd >= 0 {
            // SAFETY: the child's copy of a descriptor that only this library knows.
            unsafe { real::close(fd) };
        }
    }
}

/// Returns the parts of `first..=last` between the library's descriptors.
pub fn gaps(first: c_uint, last: c_uint) -> impl Iterator<Item = (c_uint, c_uint)> {
    let mut next = Some(first);
    std::iter::from_fn(move || {
        loop {
            let from = next.filter(|from| *from <= last)?;
            let ours = OURS.iter().map(|slot| slot.load(Ordering::Relaxed));
            let until = ours.filter_map(|fd| c_uint::try_from(fd).ok()).filter(|fd| (from..=last).contains(fd)).min();
            next = until.map_or(Some(last), Some).and_then(|end| end.checked_add(1));
            match until {
                Some(fd) if fd == from => {}
                Some(fd) => return Some((from, fd - 1)),
                None => return Some((from, last)),
            }
        }
    })
}

#[cfg(test)]
mod tests;
