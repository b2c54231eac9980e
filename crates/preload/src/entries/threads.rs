//! Threads: the C library takes per-thread data of this library from a thread's stack, and direct calls need more stack
//! than a system call. So a program that requests a small stack gets that much more. And before there is a second
//! thread all functions are looked up (LD6).
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{pthread_attr_t, pthread_t};

use super::entry;
use crate::real;

/// Stacks of this size are large enough.
const SMALL: usize = 1 << 20;
/// The most stack that this library needs.
const OURS: usize = 128 << 10;

entry! { pthread_create, (
    thread: *mut pthread_t, attributes: *const pthread_attr_t, begin: *mut c_void, argument: *mut c_void
) -> c_int {
    super::find_all();
    // SAFETY: the program's own arguments.
    let larger = unsafe { larger(attributes) };
    let attributes = larger.as_ref().map_or(attributes, ptr::from_ref);
    // SAFETY: the program's own arguments, or a copy that lives until then.
    unsafe { real::pthread_create(thread, attributes, begin, argument) }
}}

/// Returns a copy of `attributes` with more stack if they request a small one. A stack that the program allocated
/// itself stays.
unsafe fn larger(attributes: *const pthread_attr_t) -> Option<pthread_attr_t> {
    let (mut at, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: the program's own arguments; results are written to live values.
    let is_known =
        !attributes.is_null() && unsafe { libc::pthread_attr_getstack(attributes, &raw mut at, &raw mut bytes) } == 0;
    // Without a stack its end is the null address.
    if !is_known || bytes >= SMALL || at.addr().wrapping_add(bytes) != 0 {
        return None;
    }
    // SAFETY: plain data, whose pointers stay the program's.
    let mut copy = unsafe { attributes.read() };
    // SAFETY: a live value.
    (unsafe { libc::pthread_attr_setstacksize(&raw mut copy, bytes + OURS) } == 0).then_some(copy)
}
