//! Streams: what the C library reads and writes for them never comes by here, so their offsets are the kernel's.
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::FILE;

use super::entry;
use crate::{fd_table, fork_handlers, real};

/// A stream that was just opened.
fn begun(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() {
        // SAFETY: a stream that the C library has just made.
        drop(fd_table::take(unsafe { libc::fileno(stream) }));
    }
    stream
}

macro_rules! streams {
    ($(fn $name:ident $(= $alias:ident)* ($($argument:ident: $kind:ty),*);)*) => {$(
        entry! { $name $(= $alias)*, ($($argument: $kind),*) -> *mut FILE {
            // SAFETY: as the program has it.
            begun(unsafe { real::$name($($argument),*) })
        }}
    )*};
}

streams! {
    fn fopen = fopen64 (path: *const c_char, mode: *const c_char);
    fn freopen = freopen64 (path: *const c_char, mode: *const c_char, stream: *mut FILE);
    fn tmpfile = tmpfile64 ();
}

entry! { popen, (command: *const c_char, mode: *const c_char) -> *mut FILE {
    fork_handlers::before_start();
    // SAFETY: as the program has it.
    begun(unsafe { real::popen(command, mode) })
}}

entry! { fdopen, (fd: c_int, mode: *const c_char) -> *mut FILE {
    if let Some(it) = fd_table::held(fd) {
        it.surrender(fd);
    }
    // SAFETY: as the program has it.
    begun(unsafe { real::fdopen(fd, mode) })
}}

entry! { fclose, (stream: *mut FILE) -> c_int {
    let errno = real::errno();
    // SAFETY: as the program has it.
    let taken = fd_table::take(unsafe { libc::fileno(stream) });
    real::set_errno(errno);
    // SAFETY: as the program has it.
    let done = unsafe { real::fclose(stream) };
    drop(taken);
    done
}}
