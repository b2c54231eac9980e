//! The bare copies that every access ends in, public so that a bench can run them beside a guarded one.
//!
//! Cached stores are libc's `memcpy`, and so are short loads. A longer one is a string instruction where source and
//! destination lie alike within a line: it does not mistake its loads for ones of what the copy before stored at the same
//! offset of a page, and fetches ahead (on Zen 4 reads of 4 KiB in order take three fifths of the time; on Zen 5 it pays
//! from 16 KiB on). Where they do not, it is a loop of vectors: on some processors a string instruction, which `memcpy` may
//! be, takes three to ten times as long where the destination's offset in a page is a few bytes beyond the source's, as that
//! of a buffer of `malloc`'s is.
//!
//! Non-temporal stores go by whole 64-byte lines; what does not fill a line goes by 8-byte non-temporal words where it is
//! made of them, else it is stored and its line flushed. Either way the bytes are in the persistence domain after this
//! thread's next [`fence`].
#![allow(unsafe_code, reason = "copies between raw memory and buffers")]

use std::cell::Cell;
use std::ops::Range;

use crate::cpu::{Cpu, LineFlush};

#[cfg(not(target_arch = "x86_64"))]
#[path = "copy/portable.rs"]
mod arch;
#[cfg(target_arch = "x86_64")]
#[path = "copy/x86.rs"]
mod arch;

pub use arch::stream_summed;

#[cfg(target_arch = "x86_64")]
mod summed;
#[cfg(target_arch = "x86_64")]
pub use summed::copy_and_sum;
#[cfg(target_arch = "x86_64")]
pub(crate) use summed::{finish, fold_by, mirrored, times_x};

/// Copies and sums on the way where that can be done, which it cannot here.
///
/// # Safety
/// None needed: it does nothing.
#[cfg(not(target_arch = "x86_64"))]
pub unsafe fn copy_and_sum(_: *mut u8, _: *const u8, _: usize) -> Option<u32> {
    None
}

/// Bytes in a cache line.
pub const LINE_BYTES: usize = 64;
/// Bytes from which on it matters how a load is made.
const LONG_BYTES_MIN: usize = 1024;

/// The bytes of a long load that are prefetched. The bytes before them arrive soon enough, and the processor prefetches
/// the bytes after them by itself.
const ASKED: Range<usize> = 1024..4096;

/// Copies `len` bytes out of a memory into a buffer.
///
/// # Safety
/// As [`plain`].
#[inline(always)]
pub unsafe fn load(cpu: &Cpu, dst: *mut u8, src: *const u8, len: usize) {
    let is_alike = (dst as usize ^ src as usize).is_multiple_of(LINE_BYTES);
    if len > ASKED.start && cpu.has_second_queue && !follows(src, len) {
        ask_for_rest(src, len);
    }
    // SAFETY: the caller's promise; the processor has the instructions.
    unsafe {
        if len < LONG_BYTES_MIN {
            plain(dst, src, len);
        } else if is_alike && len >= cpu.string_bytes_min {
            arch::copy_string(dst, src, len);
        } else {
            load_unlike(cpu, dst, src, len);
        }
    }
}

/// The same for many bytes that lie otherwise within a line than they are to.
///
/// # Safety
/// As [`plain`]; there is a line to copy.
#[inline(never)]
unsafe fn load_unlike(cpu: &Cpu, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; the processor has the instructions.
    unsafe { arch::copy_vectors(cpu.stream_width, dst, src, len) };
}

thread_local! {
    /// Where this thread's last load that may have been asked for ended.
    static END: Cell<*const u8> = const { Cell::new(std::ptr::null()) };
}

/// Returns true if a load of `len` bytes continues this thread's previous load: its lines are on their way already, and
/// prefetches would delay them.
#[inline(always)]
fn follows(src: *const u8, len: usize) -> bool {
    END.replace(src.wrapping_add(len)) == src
}

/// Prefetches the lines of a load of `len` bytes, the last line first. A processor drops some of so many hints, and the
/// load itself asks for the first lines at once. (4 KiB at random take 0.85 of the time on Zen 4, and on Zen 5 between
/// calls. In sequence they take 0.97 on Zen 4, and half as long again on Zen 5.)
#[inline(always)]
fn ask_for_rest(src: *const u8, len: usize) {
    let mut at = len.min(ASKED.end);
    while at > ASKED.start {
        at -= LINE_BYTES;
        arch::ask_for::<{ arch::SECOND }>(src.wrapping_add(at));
    }
}

/// Asks for the line at `at`, and so for where its page lies. A hint, which never faults.
#[inline(always)]
pub fn ask_for_line(at: *const u8) {
    arch::ask_for::<{ arch::FIRST }>(at);
}

/// Copies `len` bytes by the C library's routine: cached, nothing flushed.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn plain(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise is memcpy's own.
    unsafe { libc::memcpy(dst.cast(), src.cast(), len) };
}

/// Fills `len` bytes with zeros: cached, nothing flushed.
///
/// # Safety
/// `dst` is valid for writes of `len` bytes.
#[inline]
pub unsafe fn plain_zero(dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise is memset's own.
    unsafe { libc::memset(dst.cast(), 0, len) };
}

/// Copies `len` bytes past the cache.
///
/// # Safety
/// As [`plain`].
#[inline]
pub unsafe fn store_nt(dst: *mut u8, src: *const u8, len: usize) {
    let cpu = Cpu::get();
    if (dst as usize | len) & (LINE_BYTES - 1) == 0 {
        // SAFETY: the caller's promise; whole lines by the check above.
        return unsafe { arch::stream_lines(cpu.stream_width, dst, src, len) };
    }
    // SAFETY: the caller's promise covers each of the three parts.
    unsafe { store_nt_ragged(cpu, dst, src, len) }
}

/// Zeroes `len` bytes past the cache.
///
/// # Safety
/// As [`plain_zero`].
pub unsafe fn zero_nt(dst: *mut u8, len: usize) {
    let cpu = Cpu::get();
    let parts = CopyParts::of(dst, len);
    // SAFETY: the parts lie within the caller's `len` bytes; the middle is whole lines.
    unsafe {
        plain_zero(dst, parts.head);
        flush_lines(dst, parts.head, cpu.line_flush);
        arch::stream_zeros(cpu.stream_width, dst.add(parts.head), parts.lines);
        let tail = dst.add(parts.head + parts.lines);
        plain_zero(tail, parts.tail);
        flush_lines(tail, parts.tail, cpu.line_flush);
    }
}

/// Copies `len` bytes and makes each aligned 8 of them durable before the next: store, flush, fence.
///
/// # Safety
/// As [`plain`].
pub unsafe fn store_through(dst: *mut u8, src: *const u8, len: usize, by: LineFlush) {
    for (at, piece) in words(dst, len) {
        // SAFETY: the pieces lie within the caller's `len` bytes.
        unsafe {
            plain(dst.add(at), src.add(at), piece);
            flush_lines(dst.add(at), piece, by);
        }
        fence();
    }
}

/// Zeroes `len` bytes as [`store_through`] copies them.
///
/// # Safety
/// As [`plain_zero`].
pub unsafe fn zero_through(dst: *mut u8, len: usize, by: LineFlush) {
    for (at, piece) in words(dst, len) {
        // SAFETY: the pieces lie within the caller's `len` bytes.
        unsafe {
            plain_zero(dst.add(at), piece);
            flush_lines(dst.add(at), piece, by);
        }
        fence();
    }
}

/// Starts write-back of every line that the `len` bytes at `ptr` touch.
///
/// # Safety
/// The lines are mapped and readable.
#[inline]
pub unsafe fn flush_lines(ptr: *const u8, len: usize, by: LineFlush) {
    if len == 0 {
        return;
    }
    let (first, count) = lines(ptr as usize, len);
    // SAFETY: rounding down to a line stays within a page that the caller knows is readable.
    unsafe { arch::flush(first as *const u8, count, by) };
}

/// The first of the lines that `len` bytes at `at` touch, and how many there are.
#[inline]
fn lines(at: usize, len: usize) -> (usize, usize) {
    let first = at & !(LINE_BYTES - 1);
    (first, (at + len - first).div_ceil(LINE_BYTES))
}

/// Waits until this thread's flushed and non-temporal stores are in the persistence domain.
#[inline]
pub fn fence() {
    arch::fence();
}

/// Where in `len` bytes at `dst` each aligned 8-byte word starts and how much of it is theirs.
fn words(dst: *const u8, len: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let piece = (8 - (dst as usize + at) % 8).min(len - at);
        at += piece;
        (piece > 0).then_some((at - piece, piece))
    })
}

/// Bytes before the first whole line, in whole lines, and after the last.
struct CopyParts {
    head: usize,
    lines: usize,
    tail: usize,
}

impl CopyParts {
    fn of(dst: *const u8, len: usize) -> Self {
        let head = ((dst as usize).wrapping_neg() & (LINE_BYTES - 1)).min(len);
        let lines = (len - head) & !(LINE_BYTES - 1);
        Self { head, lines, tail: len - head - lines }
    }
}

/// # Safety
/// As [`plain`].
unsafe fn store_nt_ragged(cpu: Cpu, dst: *mut u8, src: *const u8, len: usize) {
    let parts = CopyParts::of(dst, len);
    let tail_at = parts.head + parts.lines;
    // SAFETY: the parts lie within the caller's `len` bytes; the middle is whole lines.
    unsafe {
        store_within_line(cpu, dst, src, parts.head);
        arch::stream_lines(cpu.stream_width, dst.add(parts.head), src.add(parts.head), parts.lines);
        store_within_line(cpu, dst.add(tail_at), src.add(tail_at), parts.tail);
    }
}

/// # Safety
/// As [`plain`], and the bytes lie within one line.
#[inline]
unsafe fn store_within_line(cpu: Cpu, dst: *mut u8, src: *const u8, len: usize) {
    if (dst as usize | len) & 7 == 0 {
        // SAFETY: whole aligned words by the check above.
        return unsafe { arch::stream_words(dst, src, len) };
    }
    // SAFETY: the caller's promise.
    unsafe {
        plain(dst, src, len);
        flush_lines(dst, len, cpu.line_flush);
    }
}

#[cfg(test)]
mod tests;
