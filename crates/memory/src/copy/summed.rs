//! A copy that computes the CRC-32 of its bytes. The bytes are folded while the next ones arrive from memory, so the
//! checksum costs a random read little. A second pass would keep the next copy from starting. The vector units are busy
//! in that time, so lines are prefetched early: the lines ahead, and behind the end, of large or sequential loads, and the
//! last lines of others.
//!
//! The CRC-32 of zlib and Ethernet is computed by carry-less multiplication (Gopal et al., "Fast CRC Computation for
//! Generic Polynomials Using PCLMULQDQ Instruction", Intel 2009). The folded part moves by D bits onto the next bytes
//! by multiplying its halves with x^(D+32) and x^(D-32) mod P. Four vectors of 64 bytes are folded side by side, then
//! into one, then its four lanes into 16 bytes, and those into 32 bits.
#![allow(unsafe_code, reason = "vectors loaded, stored and multiplied")]

use std::arch::x86_64::*;

use super::{ASKED, ask_for_rest, follows};
use crate::cpu::Cpu;

/// The polynomial without its highest term.
const POLYNOMIAL: u32 = 0x04C1_1DB7;
/// Bytes folded in one step.
const STEP_BYTES: usize = 256;
/// The distance of the prefetched lines. The last ones lie behind the copied bytes, where a sequential reader
/// continues.
const AHEAD_BYTES: usize = 1 << 10;

/// x^`power` mod P, as the folded bits lie: mirrored, and shifted by one.
const fn fold_constant(power: u32) -> i64 {
    let (mut rest, mut i) = (1_u32, 0);
    while i < power {
        rest = times_x(rest);
        i += 1;
    }
    mirrored(rest)
}

/// `rest` times x mod P.
pub(crate) const fn times_x(rest: u32) -> u32 {
    (rest << 1) ^ if rest >> 31 == 1 { POLYNOMIAL } else { 0 }
}

pub(crate) const fn mirrored(rest: u32) -> i64 {
    (rest.reverse_bits() as i64) << 1
}

/// The constants that move 16 bytes by `bits`: for the low half, and for the high one.
pub(crate) const fn fold_by(bits: u32) -> [i64; 2] {
    [fold_constant(bits + 32), fold_constant(bits - 32)]
}

/// The whole polynomial, mirrored, and what x^64 divided by it is.
const MIRRORED_POLYNOMIAL: i64 = (POLYNOMIAL.reverse_bits() as i64) << 1 | 1;
const MIRRORED_QUOTIENT: i64 = quotient();

/// x^64 / P, mirrored.
const fn quotient() -> i64 {
    let (mut rest, mut quotient, mut bit) = (1_u128 << 64, 0_i64, 64);
    while bit >= 32 {
        if rest >> bit & 1 == 1 {
            rest ^= (1 << 32 | POLYNOMIAL as u128) << (bit - 32);
            quotient |= 1 << (64 - bit);
        }
        bit -= 1;
    }
    quotient
}

const BY_STEP: [i64; 2] = fold_by(8 * STEP_BYTES as u32);
const BY_VECTOR: [i64; 2] = fold_by(512);
const BY_LANES: [[i64; 2]; 3] = [fold_by(384), fold_by(256), fold_by(128)];

/// Copies `len` bytes and returns their CRC-32, if this processor and the length allow both in one pass. Otherwise
/// copies nothing.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `len` bytes, and they do not overlap.
#[inline]
pub unsafe fn copy_and_sum(dst: *mut u8, src: *const u8, len: usize) -> Option<u32> {
    let able = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("vpclmulqdq");
    if !able || len == 0 || !len.is_multiple_of(STEP_BYTES) {
        return None;
    }
    let in_order = follows(src, len) || len > ASKED.end || !Cpu::get().has_second_queue;
    // SAFETY: the caller's promise; the features are there.
    Some(!unsafe { fold(dst, src, len, in_order) })
}

/// Copies and folds; the remainder. Lines are asked for `in_order`, or from the end.
///
/// # Safety
/// As [`copy_and_sum`]; `len` is some whole steps, and the processor has the features.
#[target_feature(enable = "avx512f,vpclmulqdq,pclmulqdq,sse4.1")]
unsafe fn fold(dst: *mut u8, src: *const u8, len: usize, in_order: bool) -> u32 {
    let by_step = both(BY_STEP);
    if in_order {
        (0..AHEAD_BYTES).step_by(64).for_each(|at| ask_for(src.wrapping_add(at)));
    } else {
        ask_for_rest(src, len);
    }
    let mut folded = [_mm512_setzero_si512(); 4];
    for at in (0..len).step_by(STEP_BYTES) {
        for (i, folded) in folded.iter_mut().enumerate() {
            if in_order {
                ask_for(src.wrapping_add(at + AHEAD_BYTES + 64 * i));
            }
            // SAFETY: within `len`; neither needs to be aligned.
            let bytes = unsafe {
                let bytes = _mm512_loadu_si512(src.add(at + 64 * i).cast());
                _mm512_storeu_si512(dst.add(at + 64 * i).cast(), bytes);
                bytes
            };
            *folded = if at > 0 { onto(*folded, by_step, bytes) } else { bytes };
        }
        if at == 0 {
            // The register starts with ones.
            folded[0] = _mm512_xor_si512(folded[0], _mm512_zextsi128_si512(_mm_set_epi32(0, 0, 0, -1)));
        }
    }
    let by_vector = both(BY_VECTOR);
    let [first, rest @ ..] = folded;
    let one = rest.into_iter().fold(first, |one, next| onto(one, by_vector, next));
    let by_lanes = _mm512_set_epi64(
        0,
        0,
        BY_LANES[2][1],
        BY_LANES[2][0],
        BY_LANES[1][1],
        BY_LANES[1][0],
        BY_LANES[0][1],
        BY_LANES[0][0],
    );
    let moved = onto(one, by_lanes, _mm512_setzero_si512());
    let first_two = _mm_xor_si128(_mm512_castsi512_si128(moved), _mm512_extracti32x4_epi32::<1>(moved));
    let last_two = _mm_xor_si128(_mm512_extracti32x4_epi32::<2>(moved), _mm512_extracti32x4_epi32::<3>(one));
    finish(_mm_xor_si128(first_two, last_two))
}

/// Prefetches the line at `at`. The hint never faults.
#[target_feature(enable = "sse")]
fn ask_for(at: *const u8) {
    _mm_prefetch::<_MM_HINT_T0>(at.cast());
}

/// The same pair of constants for each lane.
#[target_feature(enable = "avx512f")]
fn both([low, high]: [i64; 2]) -> __m512i {
    _mm512_set_epi64(high, low, high, low, high, low, high, low)
}

/// Moves `folded` onto `next`.
#[target_feature(enable = "avx512f,vpclmulqdq")]
fn onto(folded: __m512i, by: __m512i, next: __m512i) -> __m512i {
    let low = _mm512_clmulepi64_epi128::<0x00>(folded, by);
    let high = _mm512_clmulepi64_epi128::<0x11>(folded, by);
    _mm512_ternarylogic_epi64::<0x96>(low, high, next)
}

/// The remainder of 16 bytes: to 64 bits, to 32 more than are wanted, and those by Barrett's reduction.
#[target_feature(enable = "pclmulqdq,sse4.1")]
#[inline]
pub(crate) fn finish(bytes: __m128i) -> u32 {
    let low_words = _mm_set_epi32(0, -1, 0, -1);
    let by = _mm_set_epi64x(fold_constant(64), fold_constant(96));
    let half = _mm_xor_si128(_mm_srli_si128::<8>(bytes), _mm_clmulepi64_si128::<0x00>(bytes, by));
    let rest = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(half, low_words), by);
    let rest = _mm_xor_si128(rest, _mm_srli_si128::<4>(half));
    let reduce = _mm_set_epi64x(MIRRORED_POLYNOMIAL, MIRRORED_QUOTIENT);
    let times = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(rest, low_words), reduce);
    let times = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(times, low_words), reduce);
    _mm_extract_epi32::<1>(_mm_xor_si128(rest, times)) as u32
}

#[cfg(test)]
mod tests;
