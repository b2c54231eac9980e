//! Calls that a thread makes as a whole: who cancels it (`pthread_cancel`) waits for the answer. Ended in the middle, it
//! would keep for good what it holds, locks first of all.
//!
//! Unsafe because the C library is called, which the crate for it has no words for here.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr;

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// `PTHREAD_CANCEL_DISABLE`.
const DISABLED: c_int = 1;

/// The calling thread is not cancelled while this lives.
pub(super) struct Whole {
    before: c_int,
    _own_thread: PhantomData<*const ()>,
}

impl Whole {
    pub fn begin() -> Self {
        let mut before = 0;
        // SAFETY: the C library writes to a live value.
        unsafe { pthread_setcancelstate(DISABLED, &raw mut before) };
        Self { before, _own_thread: PhantomData }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        // SAFETY: nothing is passed but what was before.
        unsafe { pthread_setcancelstate(self.before, ptr::null_mut()) };
    }
}
