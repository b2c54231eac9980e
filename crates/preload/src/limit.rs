//! The size that this process's limit allows a file (RLIMIT_FSIZE): what goes beyond is the kernel's to refuse, with
//! its signal.
//!
//! Unsafe because the kernel writes to a value of ours.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

static FILE_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);

#[inline]
pub fn file_bytes() -> u64 {
    FILE_BYTES.load(Ordering::Relaxed)
}

/// Asks the kernel for it.
pub fn learn() {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: the kernel writes to a live value.
    unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) };
    FILE_BYTES.store(limit.rlim_cur, Ordering::Relaxed);
}
