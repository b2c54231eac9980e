//! Threads: the C library takes out of a thread's stack what this library keeps for each thread, and what is done here
//! needs more of it than a system call. So where a program asks for a small one it gets so much more. And before there is a second
//! one all functions are looked up (LD6).
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;

use libc::{pthread_attr_t, pthread_t};

use super::entry;
use crate::real;

/// Stacks from here on are large enough.
const SMALL: usize = 1 << 20;
/// What we need at most.
const OURS: usize = 128 << 10;

entry! { pthread_create, (
    thread: *mut pthread_t, attributes: *const pthread_attr_t, begin: *mut c_void, argument: *mut c_void
) -> c_int {
    super::find_all();
    // SAFETY: as the program has it.
    let larger = unsafe { larger(attributes) };
    let attributes = larger.as_ref().map_or(attributes, ptr::from_ref);
    // SAFETY: as the program has it, or a copy that lives until then.
    unsafe { real::pthread_create(thread, attributes, begin, argument) }
}}

/// A copy of `attributes` with room for us, where they ask for a small stack. One that the program made itself stays.
unsafe fn larger(attributes: *const pthread_attr_t) -> Option<pthread_attr_t> {
    let (mut at, mut bytes) = (ptr::null_mut(), 0);
    // SAFETY: as the program has it; what is found is written to live values.
    let is_known =
        !attributes.is_null() && unsafe { libc::pthread_attr_getstack(attributes, &raw mut at, &raw mut bytes) } == 0;
    // Where there is none its end is the null address.
    if !is_known || bytes >= SMALL || at.addr().wrapping_add(bytes) != 0 {
        return None;
    }
    // SAFETY: plain data, and what it points to stays the program's.
    let mut copy = unsafe { attributes.read() };
    // SAFETY: a live value.
    (unsafe { libc::pthread_attr_setstacksize(&raw mut copy, bytes + OURS) } == 0).then_some(copy)
}
