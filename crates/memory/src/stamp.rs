//! Clocks that the edge passes to code below it: the time that a file is stamped with, and the time that requests take.
#![allow(unsafe_code, reason = "clock_gettime")]

/// Returns the kernel's time at its last tick, in nanoseconds since 1970. The kernel's own file systems stamp files
/// with it, so stamps of both compare in the order of creation. The time is some milliseconds old, and costs a fifth of
/// the current time. Only callers that pass a clock to others use it; code below the edge does not.
pub fn stamp_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes to a live value; the clock is one that every kernel has.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

/// Returns nanoseconds since an instant that is the same for all processes of this boot. The kernel lets programs read
/// this clock without a system call.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes to a live value; the clock is one that every kernel has.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

#[cfg(test)]
mod tests;
