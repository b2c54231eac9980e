//! Copies within the kernel, which use and move the offsets there.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use libc::{off_t, size_t, ssize_t};

use super::entry;
use crate::{fd_table, known_files, real};

/// Runs `call`, for which the kernel has the offset of `fd` if it is `used`.
fn lent<T>(fd: c_int, used: bool, call: impl FnOnce() -> T) -> T {
    match fd_table::held(fd) {
        Some(it) if used => it.lend_unserialized(fd, call),
        _ => {
            known_files::query_size(fd);
            call()
        }
    }
}

entry! { sendfile = sendfile64, (to: c_int, from: c_int, at: *mut off_t, len: size_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    lent(to, true, || lent(from, at.is_null(), || unsafe { real::sendfile(to, from, at, len) }))
}}

entry! { copy_file_range, (
    from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
) -> ssize_t {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::copy_file_range(from, from_at, to, to_at, len, flags) };
    lent(from, from_at.is_null(), || lent(to, to_at.is_null(), call))
}}

entry! { splice, (
    from: c_int, from_at: *mut off_t, to: c_int, to_at: *mut off_t, len: size_t, flags: c_uint
) -> ssize_t {
    // SAFETY: the program's own arguments.
    let call = || unsafe { real::splice(from, from_at, to, to_at, len, flags) };
    lent(from, from_at.is_null(), || lent(to, to_at.is_null(), call))
}}
