//! Memory as it is wanted: asked for some time before it is needed, and in huge pages.
#![allow(unsafe_code)]

use rustix::mm::Advice;

/// Bytes of which every processor has whole pages, which advice is for.
const PAGE: usize = 64 << 10;

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

/// A table of `count` times `entry` that is looked into all over: in huge pages where the kernel has some, for it has more small
/// ones than a processor knows the places of.
pub fn table<T: Clone>(entry: T, count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    let room = table.spare_capacity_mut();
    let at = room.as_mut_ptr().cast::<u8>();
    let skipped = at.align_offset(PAGE);
    if let Some(bytes) = size_of_val(room).checked_sub(skipped) {
        let first = at.wrapping_add(skipped).cast();
        // SAFETY: these are pages of the table's own room, and the advice changes nothing of what is in them.
        let _ = unsafe { rustix::mm::madvise(first, bytes / PAGE * PAGE, Advice::LinuxHugepage) };
    }
    table.resize(count, entry);
    table
}
