//! The instructions themselves, for x86-64.

use std::arch::asm;
use std::arch::x86_64::*;

use crate::cpu::{LineFlush, StreamWidth};

/// Makes a pair of routines that move whole lines by one vector width.
macro_rules! stream_by {
    ($feature:literal, $copy:ident, $fill:ident, $vector:ty, $load:ident, $store:ident, $zero:ident) => {
        /// # Safety
        /// `dst` is 64-byte aligned, `len` is a multiple of 64, both are valid for it, and the processor has the feature.
        #[target_feature(enable = $feature)]
        unsafe fn $copy(dst: *mut u8, src: *const u8, len: usize) {
            const LANES: usize = 64 / size_of::<$vector>();
            let (mut to, mut from) = (dst.cast::<$vector>(), src.cast::<$vector>());
            for _ in 0..len / 64 {
                // SAFETY: line after line within the `len` bytes the caller promised; the loads may be unaligned.
                unsafe {
                    let line: [$vector; LANES] = std::array::from_fn(|i| $load(from.add(i).cast()));
                    for (i, lane) in line.into_iter().enumerate() {
                        $store(to.add(i).cast(), lane);
                    }
                    (to, from) = (to.add(LANES), from.add(LANES));
                }
            }
        }

        /// # Safety
        /// As the copy.
        #[target_feature(enable = $feature)]
        unsafe fn $fill(dst: *mut u8, len: usize) {
            let mut to = dst.cast::<$vector>();
            for _ in 0..len / size_of::<$vector>() {
                // SAFETY: within the `len` bytes the caller promised.
                unsafe {
                    $store(to.cast(), $zero());
                    to = to.add(1);
                }
            }
        }
    };
}

stream_by!("avx512f", copy_512, fill_512, __m512i, _mm512_loadu_si512, _mm512_stream_si512, _mm512_setzero_si512);
stream_by!("avx2", copy_256, fill_256, __m256i, _mm256_loadu_si256, _mm256_stream_si256, _mm256_setzero_si256);
stream_by!("sse2", copy_128, fill_128, __m128i, _mm_loadu_si128, _mm_stream_si128, _mm_setzero_si128);

/// # Safety
/// `dst` is 64-byte aligned, `len` is a multiple of 64, both are valid for it.
#[inline]
pub unsafe fn stream_lines(width: StreamWidth, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; the width was detected on this processor.
    unsafe {
        match width {
            StreamWidth::Avx512 => copy_512(dst, src, len),
            StreamWidth::Avx2 => copy_256(dst, src, len),
            StreamWidth::Sse2 => copy_128(dst, src, len),
        }
    }
}

/// # Safety
/// As [`stream_lines`].
#[inline]
pub unsafe fn stream_zeros(width: StreamWidth, dst: *mut u8, len: usize) {
    // SAFETY: the caller's promise; the width was detected on this processor.
    unsafe {
        match width {
            StreamWidth::Avx512 => fill_512(dst, len),
            StreamWidth::Avx2 => fill_256(dst, len),
            StreamWidth::Sse2 => fill_128(dst, len),
        }
    }
}

/// # Safety
/// `dst` is 8-byte aligned, `len` is a multiple of 8, both are valid for it.
#[inline]
pub unsafe fn stream_words(dst: *mut u8, src: *const u8, len: usize) {
    for at in (0..len).step_by(8) {
        // SAFETY: within `len`; the destination is aligned, the source need not be.
        unsafe { _mm_stream_si64(dst.add(at).cast(), src.add(at).cast::<i64>().read_unaligned()) };
    }
}

/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy_string(dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; the direction flag is clear in all Rust code.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") dst => _, inout("rsi") src => _,
            options(nostack, preserves_flags));
    }
}

/// # Safety
/// The `count` lines from `first` are readable, and the processor has the instruction.
#[inline]
pub unsafe fn flush(first: *const u8, count: usize, by: LineFlush) {
    let lines = (0..count).map(|i| first.wrapping_add(i * 64));
    // SAFETY: the instructions only need a readable address; they change no byte and no flag.
    unsafe {
        match by {
            LineFlush::Clwb => lines.for_each(|at| asm!("clwb [{}]", in(reg) at, options(nostack, preserves_flags))),
            LineFlush::Clflushopt => {
                lines.for_each(|at| asm!("clflushopt [{}]", in(reg) at, options(nostack, preserves_flags)));
            }
            LineFlush::Clflush => lines.for_each(|at| _mm_clflush(at)),
        }
    }
}

/// Has the line at `at` brought into the cache.
#[inline(always)]
pub fn ask_for(at: *const u8) {
    // SAFETY: every x86-64 has the instruction, and it never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

/// `sfence`: orders flushes and non-temporal stores, and drains this processor's write-combining buffers.
#[inline]
pub fn fence() {
    // SAFETY: `sfence` has no operand.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
