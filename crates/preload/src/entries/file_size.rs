//! The result of `fstat`, and the end of a file.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::c_int;

use libc::{off_t, stat};

use super::entry;
use super::read_write::{direct, may_be_memory, through};
use crate::{fd_table, known_files, real};

/// Does `fstat` directly, or by `call` of the kernel.
///
/// # Safety
/// The conditions of fstat(2).
unsafe fn stat_by(fd: c_int, into: *mut stat, call: impl FnOnce() -> c_int) -> c_int {
    let known = fd_table::with(fd, |it| it.file.stat().filter(|_| may_be_memory(into.addr(), size_of::<stat>())));
    let Some(tried) = known else { return call() };
    if let Some(known) = tried {
        // SAFETY: the caller's promise; the kernel does not require alignment.
        unsafe { into.write_unaligned(known) };
        return direct(0) as c_int;
    }
    let done = call();
    if done == 0 {
        // SAFETY: the kernel has just filled it.
        let found = unsafe { into.read_unaligned() };
        fd_table::with(fd, |it| it.file.store_stat_template(&found));
    }
    through(done as isize) as c_int
}

entry! { fstat = fstat64, (fd: c_int, into: *mut stat) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { stat_by(fd, into, || real::fstat(fd, into)) }
}}

// The name in programs that were built for C libraries before 2.33.
entry! { __fxstat = __fxstat64, (version: c_int, fd: c_int, into: *mut stat) -> c_int {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::__fxstat(version, fd, into) };
    // SAFETY: the program's own arguments; for this version the C library fills the same as `fstat`.
    if version == 1 { unsafe { stat_by(fd, into, call) } } else { call() }
}}

entry! { ftruncate = ftruncate64, (fd: c_int, len: off_t) -> c_int {
    match fd_table::held(fd).map(|it| it.resize(fd, len)) {
        Some(Some(())) => direct(0) as c_int,
        Some(None) => {
            // LD7: the size decides whether a limit is in the way.
            known_files::query_size(fd);
            // SAFETY: no pointer is passed.
            through(unsafe { real::ftruncate(fd, len) } as isize) as c_int
        }
        // SAFETY: no pointer is passed.
        None => unsafe { real::ftruncate(fd, len) },
    }
}}
