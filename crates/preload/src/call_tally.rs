//! Counts of direct calls and of calls through the mount, for `ferrite run --stat`: added up in a file that all its
//! processes share.
//!
//! ```text
//! 64 lines of 64 bytes, a thread adds to one of them
//!   0   u64   direct calls
//!   8   u64   their bytes
//!   16  u64   calls through the mount
//!   24  u64   their bytes
//!   32  u64   sessions that the owner of a pool refused
//!   40  u64   programs that count here
//! ```
//!
//! Unsafe because the file is mapped and counted in through pointers.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ferrite_memory::pin;

use crate::real;

/// The variable that names the file.
const VARIABLE: &str = "FERRITE_RUN_TALLY";
const LINES: usize = 64;

#[repr(C, align(64))]
struct TallyLine {
    direct_calls: AtomicU64,
    direct_bytes: AtomicU64,
    mount_calls: AtomicU64,
    mount_bytes: AtomicU64,
    refused: AtomicU64,
    programs: AtomicU64,
}

static TALLY: AtomicPtr<TallyLine> = AtomicPtr::new(ptr::null_mut());

/// Begins to count, if the variable names a file.
pub fn begin() {
    let Some(path) =
        ferrite_memory::process::variable(VARIABLE).and_then(|path| CString::new(path.into_encoded_bytes()).ok())
    else {
        return;
    };
    // SAFETY: a C string, and a descriptor that is closed below.
    let fd = unsafe { real::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC, 0) };
    if fd < 0 {
        return;
    }
    let (bytes, access) = (LINES * size_of::<TallyLine>(), libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let lines = unsafe { libc::mmap(ptr::null_mut(), bytes, access, libc::MAP_SHARED, fd, 0) };
    // SAFETY: opened above.
    unsafe { real::close(fd) };
    if lines != libc::MAP_FAILED {
        TALLY.store(lines.cast(), Ordering::Release);
    }
    if let Some(line) = line() {
        line.programs.fetch_add(1, Ordering::Relaxed);
    }
}

#[inline]
fn line() -> Option<&'static TallyLine> {
    let lines = TALLY.load(Ordering::Relaxed);
    if lines.is_null() {
        return None;
    }
    let seat = pin().seat().unwrap_or(0) % LINES;
    // SAFETY: the mapping has LINES lines and is never unmapped.
    Some(unsafe { &*lines.add(seat) })
}

#[inline]
pub fn direct(bytes: usize) {
    if let Some(line) = line() {
        line.direct_calls.fetch_add(1, Ordering::Relaxed);
        line.direct_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

pub fn refused() {
    if let Some(line) = line() {
        line.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts a call through the mount; `bytes` is its result.
pub fn mount(bytes: isize) {
    if let Some(line) = line() {
        line.mount_calls.fetch_add(1, Ordering::Relaxed);
        line.mount_bytes.fetch_add(bytes.max(0) as u64, Ordering::Relaxed);
    }
}
