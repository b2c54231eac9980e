//! Asking for memory some time before it is needed.
#![allow(unsafe_code)]

/// Has entry `at` of `table` on its way to the processor; of no consequence where there is none.
#[inline(always)]
pub fn ask_for<T>(table: &[T], at: usize) {
    let place = table.as_ptr().wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it never faults, whatever the address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}
