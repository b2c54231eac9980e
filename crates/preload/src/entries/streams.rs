//! Streams: the C library's reads and writes for them never pass this library, so their offsets are the kernel's.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};

use libc::FILE;

use super::entry;
use crate::{fd_table, fork_handlers, real};

/// Drops the entry of a stream that was just opened.
fn begun(stream: *mut FILE) -> *mut FILE {
    if !stream.is_null() {
        // SAFETY: a stream that the C library has just created.
        drop(fd_table::take(unsafe { libc::fileno(stream) }));
    }
    stream
}

macro_rules! streams {
    ($(fn $name:ident $(= $alias:ident)* ($($argument:ident: $kind:ty),*);)*) => {$(
        entry! { $name $(= $alias)*, ($($argument: $kind),*) -> *mut FILE {
            // SAFETY: the program's own arguments.
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
    // SAFETY: the program's own arguments.
    begun(unsafe { real::popen(command, mode) })
}}

entry! { fdopen, (fd: c_int, mode: *const c_char) -> *mut FILE {
    if let Some(it) = fd_table::held(fd) {
        it.surrender(fd);
    }
    // SAFETY: the program's own arguments.
    begun(unsafe { real::fdopen(fd, mode) })
}}

entry! { fclose, (stream: *mut FILE) -> c_int {
    let errno = real::errno();
    // SAFETY: the program's own arguments.
    let taken = fd_table::take(unsafe { libc::fileno(stream) });
    real::set_errno(errno);
    // SAFETY: the program's own arguments.
    let done = unsafe { real::fclose(stream) };
    drop(taken);
    done
}}
