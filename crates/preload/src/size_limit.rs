//! The size that this process's limit allows a file (RLIMIT_FSIZE): what goes beyond is the kernel's to refuse, with
//! its signal.
//!
//! Unsafe because the kernel writes to a value of ours.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// No limit, as the kernel says it too.
pub const NONE: u64 = libc::RLIM_INFINITY;

static FILE_BYTES: AtomicU64 = AtomicU64::new(NONE);

#[inline]
pub fn file_bytes() -> u64 {
    FILE_BYTES.load(Ordering::Relaxed)
}

/// Asks the kernel for it.
pub fn learn() {
    let mut limit = libc::rlimit { rlim_cur: NONE, rlim_max: NONE };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    FILE_BYTES.store(limit.rlim_cur, Ordering::Relaxed);
}

/// `work`, while the limit is taken to be `bytes`: what nobody serves directly goes to the kernel, which has another one.
#[cfg(test)]
pub fn being<T>(bytes: u64, work: impl FnOnce() -> T) -> T {
    FILE_BYTES.store(bytes, Ordering::Relaxed);
    let done = work();
    FILE_BYTES.store(NONE, Ordering::Relaxed);
    done
}
