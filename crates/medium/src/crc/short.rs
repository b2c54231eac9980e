//! Folds of 16 bytes at a time. What does not fill the first 16 stands behind zeros, which change nothing before the
//! register's start is in; that start is four bytes more to be added to the first four, wherever those come to stand.
//!
//! Unsafe because vectors are loaded by pointers, and by instructions that a processor may lack.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::copy::{BY_LANE, finish};

/// Longer ones are the library's, which folds four vectors side by side.
const BYTES_MAX: usize = 255;

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
    // SAFETY: the features are there, and there are at least 16 bytes.
    Some(!unsafe { fold(!initial, bytes) })
}

/// What is left of `bytes` behind a register that holds `start`.
///
/// # Safety
/// There are at least 16 bytes, and the processor has the features.
#[target_feature(enable = "pclmulqdq,sse4.1")]
unsafe fn fold(start: u32, bytes: &[u8]) -> u32 {
    let by = _mm_set_epi64x(BY_LANE[1], BY_LANE[0]);
    let onto = |folded, next| {
        let low = _mm_clmulepi64_si128::<0x00>(folded, by);
        _mm_xor_si128(_mm_xor_si128(low, _mm_clmulepi64_si128::<0x11>(folded, by)), next)
    };
    let (start, odd) = (_mm_cvtsi32_si128(start as i32), bytes.len() % 16);
    // SAFETY: `at` is a multiple of 16 behind `odd`, so 16 bytes stand there; of `PLACES`, 16 from 0 to 32.
    let (load, places) = unsafe {
        (
            |at: usize| _mm_loadu_si128(bytes.as_ptr().add(at).cast()),
            |at: usize| _mm_loadu_si128(PLACES.as_ptr().add(at).cast()),
        )
    };
    // The first `odd` bytes at the end of 16: nothing where there are none.
    let mut folded = _mm_shuffle_epi8(_mm_xor_si128(load(0), start), places(odd));
    let rest_of_start = _mm_shuffle_epi8(start, places(16 + odd));
    folded = onto(folded, _mm_xor_si128(load(odd), rest_of_start));
    let mut at = odd + 16;
    while at < bytes.len() {
        folded = onto(folded, load(at));
        at += 16;
    }
    finish(folded)
}
