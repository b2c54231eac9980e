//! Hints to the processor and the kernel: prefetches, and tables in huge pages.
#![allow(unsafe_code, reason = "asks for lines of memory ahead, which is an instruction")]

use rustix::mm::Advice;

/// Page size for which memory advice is given: a multiple of every processor's page size.
const PAGE: usize = 64 << 10;

/// Prefetches entry `at` of `table`. An index beyond the table has no effect.
#[inline(always)]
pub fn prefetch<T>(table: &[T], at: usize) {
    let place = table.as_ptr().wrapping_add(at);
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, and it never faults for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(place.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Allocates a table of `count` copies of `entry` for random access. The kernel backs it with huge pages if it has
/// some: a processor holds the addresses of too few small pages.
pub fn huge_table<T: Clone>(entry: T, count: usize) -> Vec<T> {
    let mut table = Vec::with_capacity(count);
    let room = table.spare_capacity_mut();
    let at = room.as_mut_ptr().cast::<u8>();
    let skipped = at.align_offset(PAGE);
    if let Some(bytes) = size_of_val(room).checked_sub(skipped) {
        let first = at.wrapping_add(skipped).cast();
        // SAFETY: these pages belong to the table's own spare capacity, and the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(first, bytes / PAGE * PAGE, Advice::LinuxHugepage) };
    }
    table.resize(count, entry);
    table
}
