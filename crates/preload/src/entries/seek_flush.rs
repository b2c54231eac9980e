//! The offset, and flushes.
//!
//! Unsafe because any code can call these names.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint};

use libc::{off_t, rlimit};

use super::entry;
use crate::{fd_table, known_files, real, reentrancy, size_limit};

entry! { lseek = lseek64 = __lseek = llseek, (fd: c_int, by: off_t, whence: c_int) -> off_t {
    match fd_table::with(fd, |it| it.seek(by, whence)) {
        Some(Some(at)) => at as off_t,
        // SAFETY: no pointer is passed.
        Some(None) => fd_table::held(fd).map_or(-1, |it| it.lend(fd, || unsafe { real::lseek(fd, by, whence) })),
        // SAFETY: no pointer is passed.
        None => unsafe { real::lseek(fd, by, whence) },
    }
}}

entry! { fsync, (fd: c_int) -> c_int {
    match fd_table::with(fd, |it| it.file.persist()) {
        Some(Some(())) => 0,
        // SAFETY: no pointer is passed.
        _ => unsafe { real::fsync(fd) },
    }
}}

entry! { fdatasync, (fd: c_int) -> c_int {
    match fd_table::with(fd, |it| it.file.persist_data()) {
        Some(Some(())) => 0,
        // SAFETY: no pointer is passed.
        _ => unsafe { real::fdatasync(fd) },
    }
}}

// The kernel writes back its cached pages, and does not ask the server of a mount.
entry! { sync, () -> () {
    // SAFETY: nothing is passed.
    unsafe { real::sync() };
    if let Some(_inside) = reentrancy::enter() {
        known_files::persist_all();
    }
}}

entry! { syncfs, (fd: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    let done = unsafe { real::syncfs(fd) };
    if done == 0 && known_files::persist_mount(fd).is_none() {
        real::set_errno(libc::EIO);
        return -1;
    }
    done
}}

entry! { setrlimit = setrlimit64, (what: c_uint, new: *const rlimit) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { real::setrlimit(what, new) };
    if what == libc::RLIMIT_FSIZE {
        size_limit::learn();
    }
    done
}}

entry! { prlimit = prlimit64, (pid: c_int, what: c_uint, new: *const rlimit, old: *mut rlimit) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { real::prlimit(pid, what, new, old) };
    if what == libc::RLIMIT_FSIZE && !new.is_null() {
        size_limit::learn();
    }
    done
}}
