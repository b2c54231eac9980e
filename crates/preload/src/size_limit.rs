//! The file size limit of this process (RLIMIT_FSIZE): the kernel refuses writes beyond it, with its signal.
//!
//! Unsafe because the kernel writes to a local value.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// No limit, as the kernel reports it too.
pub const NONE: u64 = libc::RLIM_INFINITY;

pub static FILE_BYTES: AtomicU64 = AtomicU64::new(NONE);

#[inline]
pub fn file_bytes() -> u64 {
    FILE_BYTES.load(Ordering::Relaxed)
}

/// Reads the limit from the kernel.
pub fn learn() {
    let mut limit = libc::rlimit { rlim_cur: NONE, rlim_max: NONE };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    FILE_BYTES.store(limit.rlim_cur, Ordering::Relaxed);
}
