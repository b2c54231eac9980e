//! The instructions themselves, for x86-64.

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::transmute;

use crate::Fletcher;
use crate::cpu::{LineFlush, StreamWidth};

/// Makes routines that move whole lines by one vector width.
macro_rules! stream_by {
    ($feature:literal, $copy:ident, $sum:ident, $fill:ident, $vector:ty, $load:ident, $store:ident, $add:ident, $zero:ident) => {
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
        unsafe fn $sum(dst: *mut u8, src: *const u8, len: usize) -> Fletcher {
            const LANES: usize = 64 / size_of::<$vector>();
            let (mut to, mut from) = (dst.cast::<$vector>(), src.cast::<$vector>());
            let (mut first, mut second) = ([$zero(); LANES], [$zero(); LANES]);
            // SAFETY: as in the copy; and vectors of words are words.
            unsafe {
                for _ in 0..len / 64 {
                    let line: [$vector; LANES] = std::array::from_fn(|i| $load(from.add(i).cast()));
                    for (i, lane) in line.into_iter().enumerate() {
                        $store(to.add(i).cast(), lane);
                        first[i] = $add(first[i], lane);
                        second[i] = $add(second[i], first[i]);
                    }
                    (to, from) = (to.add(LANES), from.add(LANES));
                }
                let words = |vectors| transmute::<[$vector; LANES], [u64; 8]>(vectors);
                Fletcher::of(words(first), words(second))
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

stream_by!(
    "avx512f",
    copy_512,
    sum_512,
    fill_512,
    __m512i,
    _mm512_loadu_si512,
    _mm512_stream_si512,
    _mm512_add_epi64,
    _mm512_setzero_si512
);
stream_by!(
    "avx2",
    copy_256,
    sum_256,
    fill_256,
    __m256i,
    _mm256_loadu_si256,
    _mm256_stream_si256,
    _mm256_add_epi64,
    _mm256_setzero_si256
);
stream_by!(
    "sse2",
    copy_128,
    sum_128,
    fill_128,
    __m128i,
    _mm_loadu_si128,
    _mm_stream_si128,
    _mm_add_epi64,
    _mm_setzero_si128
);

/// # Safety
/// As [`stream_summed`].
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

/// Copies `len` bytes past the caches, and says what it stored.
///
/// # Safety
/// `dst` is 64-byte aligned, `len` is a multiple of 64, both are valid for it; the processor has the width.
#[inline]
pub unsafe fn stream_summed(width: StreamWidth, dst: *mut u8, src: *const u8, len: usize) -> Fletcher {
    // SAFETY: the caller's promise.
    unsafe {
        match width {
            StreamWidth::Avx512 => sum_512(dst, src, len),
            StreamWidth::Avx2 => sum_256(dst, src, len),
            StreamWidth::Sse2 => sum_128(dst, src, len),
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
/// `src` is valid for reads and `dst` for writes of `len` bytes, 64 at least, and they do not overlap.
#[inline]
pub unsafe fn copy_vectors(width: StreamWidth, dst: *mut u8, src: *const u8, len: usize) {
    // SAFETY: the caller's promise; who can stream by 32 bytes or more has AVX2.
    unsafe {
        match width {
            StreamWidth::Sse2 => super::plain(dst, src, len),
            StreamWidth::Avx2 | StreamWidth::Avx512 => copy_cached_256(dst, src, len),
        }
    }
}

/// Stores are aligned, and four loads stand before their stores. So no store splits a line, and no load waits for a
/// store to an address that it could be mistaken for. The bytes before and after the whole vectors come last: on Zen 5
/// a sequential copy takes half as long again if the first vector is loaded twice before, or the last one early.
///
/// # Safety
/// The rules of [`copy_vectors`] hold, and the processor has the feature.
#[target_feature(enable = "avx2")]
unsafe fn copy_cached_256(dst: *mut u8, src: *const u8, len: usize) {
    const VECTOR: usize = size_of::<__m256i>();
    // SAFETY: every access is within `len`: the loop's by its bounds, the first and last vector since there are two.
    unsafe {
        let load = |at: usize| _mm256_loadu_si256(src.add(at).cast());
        let mut at = (dst as usize).wrapping_neg() % VECTOR;
        while at + 4 * VECTOR <= len {
            let to = dst.add(at);
            let four = (load(at), load(at + VECTOR), load(at + 2 * VECTOR), load(at + 3 * VECTOR));
            _mm256_store_si256(to.cast(), four.0);
            _mm256_store_si256(to.add(VECTOR).cast(), four.1);
            _mm256_store_si256(to.add(2 * VECTOR).cast(), four.2);
            _mm256_store_si256(to.add(3 * VECTOR).cast(), four.3);
            at += 4 * VECTOR;
        }
        while at + VECTOR <= len {
            _mm256_store_si256(dst.add(at).cast(), load(at));
            at += VECTOR;
        }
        _mm256_storeu_si256(dst.cast(), load(0));
        _mm256_storeu_si256(dst.add(len - VECTOR).cast(), load(len - VECTOR));
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

/// The first level of the cache.
pub const FIRST: i32 = _MM_HINT_T0;
/// The second, to which more lines can be on their way than to the first.
pub const SECOND: i32 = _MM_HINT_T1;

/// Has the line at `at` brought into a level of the cache.
#[inline(always)]
pub fn ask_for<const LEVEL: i32>(at: *const u8) {
    // SAFETY: every x86-64 has the instruction, and it never faults, whatever the address.
    unsafe { _mm_prefetch::<LEVEL>(at.cast()) };
}

/// `sfence`: orders flushes and non-temporal stores, and drains this processor's write-combining buffers.
#[inline]
pub fn fence() {
    // SAFETY: `sfence` has no operand.
    unsafe { asm!("sfence", options(nostack, preserves_flags)) };
}
