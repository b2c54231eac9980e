//! Plain stores and an ordinary fence, for processors whose flush instructions are not known here. On these only a
//! barrier of a file makes data durable.

use std::sync::atomic::{self, Ordering};

use crate::Fletcher;
use crate::cpu::{LineFlush, StreamWidth};

/// # Safety
/// As [`super::plain`].
pub unsafe fn stream_lines(_: StreamWidth, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { super::plain(dst, src, len) };
}

/// # Safety
/// As [`super::plain`]; there are whole lines.
pub unsafe fn stream_summed(_: StreamWidth, dst: *mut u8, src: *const u8, len: usize) -> Fletcher {
    let mut sum = Fletcher::default();
    for at in (0..len).step_by(Fletcher::LINE_BYTES) {
        let mut line = [0; Fletcher::LINE_BYTES];
        // SAFETY: line after line within the `len` bytes of the caller's promise.
        unsafe {
            super::plain(line.as_mut_ptr(), src.add(at), line.len());
            super::plain(dst.add(at), line.as_ptr(), line.len());
        }
        sum.add(&line);
    }
    sum
}

/// # Safety
/// As [`super::plain_zero`].
pub unsafe fn stream_zeros(_: StreamWidth, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { super::plain_zero(dst, len) };
}

/// # Safety
/// As [`super::plain`].
pub unsafe fn stream_words(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { super::plain(dst, src, len) };
}

/// # Safety
/// As [`super::plain`].
pub unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { super::plain(dst, src, len) };
}

/// # Safety
/// As [`super::plain`].
pub unsafe fn copy_vectors(_: StreamWidth, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    unsafe { super::plain(dst, src, len) };
}

/// # Safety
/// None needed: it does nothing.
pub unsafe fn flush(_: *const u8, _: usize, _: LineFlush) {}

pub const FIRST: i32 = 1;
pub const SECOND: i32 = 2;

pub fn ask_for<const LEVEL: i32>(_: *const u8) {}

pub fn fence() {
    atomic::fence(Ordering::SeqCst);
}
