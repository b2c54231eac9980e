//! Each 16 bytes are moved to the end by a multiplication of their own, so no step waits for the one before. Bytes that
//! do not fill the first 16 stand behind zeros, which change nothing before the register's start is added. That start
//! is four bytes more to be added to the first four, wherever those lie. Words in registers are moved from there: a
//! vector load across recent stores waits until the stores have left for the cache.
//!
//! Unsafe because vectors are loaded by pointers, and by instructions that a processor may lack.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::copy::{finish, fold_by, mirrored, times_x};

/// Longer ones are the library's, which folds four vectors side by side.
const BYTES_MAX: usize = 255;

/// What moves 16 bytes over so many times 16 others.
static MOVES: [[i64; 2]; BYTES_MAX / 16 + 1] = {
    let mut moves = [[0; 2]; BYTES_MAX / 16 + 1];
    let mut over = 1;
    while over < moves.len() {
        moves[over] = fold_by(128 * over as u32);
        over += 1;
    }
    moves
};

/// What moves a word over so many bytes, from 4 on.
static WORD_MOVES: [i64; BYTES_MAX + 1] = {
    let (mut moves, mut over, mut rest) = ([0; BYTES_MAX + 1], 4, 1);
    while over < moves.len() {
        moves[over] = mirrored(rest);
        let mut bit = 0;
        while bit < 8 {
            rest = times_x(rest);
            bit += 1;
        }
        over += 1;
    }
    moves
};

/// Places that a vector's bytes are taken from: 16 of none, 0 to 15, 16 of none.
static PLACES: [u8; 48] = {
    let mut places = [0x80; 48];
    let mut i = 0;
    while i < 16 {
        places[16 + i] = i as u8;
        i += 1;
    }
    places
};

/// The sum, where it is short enough and this processor folds.
#[inline]
pub fn sum(initial: u32, bytes: &[u8]) -> Option<u32> {
    let fits = (16..=BYTES_MAX).contains(&bytes.len());
    if !fits || !is_x86_feature_detected!("pclmulqdq") || !is_x86_feature_detected!("sse4.1") {
        return None;
    }
    // SAFETY: the features are there, and there are 16 to BYTES_MAX bytes.
    Some(!unsafe { fold_bytes(!initial, bytes) })
}

/// Returns the remainder of `bytes` behind a register that holds `start`.
///
/// # Safety
/// The rules of [`fold`] hold.
#[target_feature(enable = "pclmulqdq,sse4.1")]
unsafe fn fold_bytes(start: u32, bytes: &[u8]) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { fold(_mm_setzero_si128(), start, bytes) }
}

/// The sum of `head`, `words` and `tail`, where that is short enough and this processor folds.
#[inline]
pub fn sum_of_words<const WORDS: usize>(
    initial: u32,
    head: (u32, u64),
    words: [u64; WORDS],
    tail: &[u8],
) -> Option<u32> {
    let fits = tail.len() >= 16 && 12 + 8 * WORDS + tail.len() <= BYTES_MAX;
    if !fits || !is_x86_feature_detected!("pclmulqdq") || !is_x86_feature_detected!("sse4.1") {
        return None;
    }
    // The register's start is added to the first bytes; zeros before them change nothing.
    let first = [u64::from(head.0 ^ !initial) << 32, head.1];
    // SAFETY: the features are there, and at least 16 bytes behind words that are moved over BYTES_MAX at most.
    Some(!unsafe { fold_words(first, words, tail) })
}

/// Returns the remainder of words and the `tail` behind them.
///
/// # Safety
/// The rules of [`fold`] hold for the tail; all of it is at most BYTES_MAX long.
#[target_feature(enable = "pclmulqdq,sse4.1")]
unsafe fn fold_words<const WORDS: usize>(first: [u64; 2], words: [u64; WORDS], tail: &[u8]) -> u32 {
    let moved = |over: usize, word: u64| {
        let by = _mm_cvtsi64_si128(WORD_MOVES[over]);
        // Else the compiler loads two words at once, which were stored one by one.
        let word = std::hint::black_box(word);
        _mm_clmulepi64_si128::<0x00>(_mm_cvtsi64_si128(word as i64), by)
    };
    let behind = tail.len() + 8 * WORDS;
    let mut sum = _mm_xor_si128(moved(behind + 8, first[0]), moved(behind, first[1]));
    for (index, word) in words.into_iter().enumerate() {
        sum = _mm_xor_si128(sum, moved(tail.len() + 8 * (WORDS - 1 - index), word));
    }
    // SAFETY: the caller's promise.
    unsafe { fold(sum, 0, tail) }
}

/// Returns the remainder of `bytes` behind a register that holds `start`, with the `sum` of the bytes already moved.
///
/// # Safety
/// There are 16 to BYTES_MAX bytes, and the processor has the features.
#[target_feature(enable = "pclmulqdq,sse4.1")]
#[inline]
unsafe fn fold(sum: __m128i, start: u32, bytes: &[u8]) -> u32 {
    let (start, odd, whole) = (_mm_cvtsi32_si128(start as i32), bytes.len() % 16, bytes.len() / 16);
    // SAFETY: `index` is less than `whole`, so 16 bytes stand there behind `odd`; of `PLACES`, 16 from 0 to 32; `over` is
    // `whole` at most, which is less than the moves there are.
    let (load, places, moves) = unsafe {
        (
            |index: usize| _mm_loadu_si128(bytes.as_ptr().add(odd + 16 * index).cast()),
            |at: usize| _mm_loadu_si128(PLACES.as_ptr().add(at).cast()),
            |over: usize| _mm_loadu_si128(MOVES.as_ptr().add(over).cast()),
        )
    };
    let moved = |sum, over, what| {
        let by = moves(over);
        let low = _mm_clmulepi64_si128::<0x00>(what, by);
        _mm_xor_si128(_mm_xor_si128(sum, low), _mm_clmulepi64_si128::<0x11>(what, by))
    };
    // SAFETY: there are at least 16 bytes.
    let first = unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) };
    // The first `odd` bytes, at the end of 16; zeros if `odd` is 0.
    let first = _mm_shuffle_epi8(_mm_xor_si128(first, start), places(odd));
    let rest_of_start = _mm_shuffle_epi8(start, places(16 + odd));
    let mut sum = moved(sum, whole, first);
    if whole == 1 {
        return finish(_mm_xor_si128(sum, _mm_xor_si128(load(0), rest_of_start)));
    }
    sum = moved(sum, whole - 1, _mm_xor_si128(load(0), rest_of_start));
    for index in 1..whole - 1 {
        sum = moved(sum, whole - 1 - index, load(index));
    }
    finish(_mm_xor_si128(sum, load(whole - 1)))
}
