//! Comparison of numbers, sixteen in a few instructions, and calls with wider vectors if the processor has them.
//!
//! Every access begins with a comparison, and a compiler makes fifty instructions of the equivalent loop.
#![allow(
    unsafe_code,
    reason = "sixteen numbers compared in vector registers, and code compiled for those that were asked for"
)]

/// Returns which of at most 64 numbers, a multiple of sixteen, equal `wanted`, a bit each.
#[inline]
pub fn equal(numbers: &[u16], wanted: u16) -> u64 {
    let (sixteens, _) = numbers.as_chunks::<16>();
    sixteens.iter().rev().fold(0, |found, sixteen| found << 16 | equal_of_sixteen(sixteen, wanted))
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn equal_of_sixteen(prints: &[u16; 16], print: u16) -> u64 {
    // SAFETY: every processor of this architecture has SSE2.
    unsafe { by_sse2(prints, print) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse2")]
#[inline]
fn by_sse2(prints: &[u16; 16], print: u16) -> u64 {
    use std::arch::x86_64::{_mm_cmpeq_epi16, _mm_movemask_epi8, _mm_packs_epi16, _mm_set1_epi16, _mm_setr_epi16};
    let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = prints.map(u16::cast_signed);
    let wanted = _mm_set1_epi16(print.cast_signed());
    let low = _mm_cmpeq_epi16(_mm_setr_epi16(a, b, c, d, e, f, g, h), wanted);
    let high = _mm_cmpeq_epi16(_mm_setr_epi16(i, j, k, l, m, n, o, p), wanted);
    _mm_movemask_epi8(_mm_packs_epi16(low, high)).cast_unsigned().into()
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn equal_of_sixteen(prints: &[u16; 16], print: u16) -> u64 {
    prints.iter().rev().fold(0, |found, known| found << 1 | u64::from(*known == print))
}

/// Calls `work`. Code inlined into it uses the vectors that this processor has beyond the common ones, and its
/// instructions for single bits.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn with_vectors<T>(work: impl FnOnce() -> T) -> T {
    let has_bits = is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt")
        && is_x86_feature_detected!("popcnt");
    if has_bits && is_x86_feature_detected!("avx2") {
        // SAFETY: this processor has all features that `by_avx2` is compiled for, as the line above checks.
        return unsafe { by_avx2(work) };
    }
    work()
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn by_avx2<T>(work: impl FnOnce() -> T) -> T {
    work()
}

/// Calls `work`.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub fn with_vectors<T>(work: impl FnOnce() -> T) -> T {
    work()
}
