//! The time that a file is stamped with.
#![allow(unsafe_code, reason = "clock_gettime")]

/// The kernel's time at its last tick in nanoseconds since 1970: what its own file systems stamp files with, so that ours
/// are older and younger than theirs as they were made. Some milliseconds old, and had in a fifth of the time that the
/// time of now takes. Nobody below the edge calls it: it is for those who hand a clock to others.
pub fn stamp_ns() -> i64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the C library writes to a live value; the clock is one that every kernel has.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME_COARSE, &raw mut now) };
    now.tv_sec.saturating_mul(1_000_000_000).saturating_add(now.tv_nsec)
}

#[cfg(test)]
mod tests;
