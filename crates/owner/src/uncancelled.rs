//! Calls during which a thread is not cancelled: a `pthread_cancel` takes effect after the answer. A thread that ended in
//! the middle of a call would never release its locks.
//!
//! Unsafe because it calls a function of the C library that the crate libc does not declare.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLED: c_int = 1;

/// While this lives the calling thread is not cancelled.
pub(super) struct Uncancelled {
    before: c_int,
    _own_thread: PhantomData<*const ()>,
}

impl Uncancelled {
    pub fn begin() -> Self {
        let mut before = 0;
        // SAFETY: the C library writes to a live value.
        unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
        Self { before, _own_thread: PhantomData }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the argument is the earlier state.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }
}
