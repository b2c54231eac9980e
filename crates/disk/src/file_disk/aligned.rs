//! A buffer at an address that direct I/O takes.
#![allow(unsafe_code, reason = "allocates at an alignment")]

use std::alloc::{self, Layout};
use std::slice;

/// Many devices take 128 pieces of memory, of a page at most, in a request. 512 KiB that begin within a page have 129.
const PAGE: usize = 4096;

/// Zeroed bytes at a multiple of some power of two.
pub(super) struct Aligned {
    ptr: *mut u8,
    layout: Layout,
}

// SAFETY: the buffer owns its allocation alone, as a box does.
unsafe impl Send for Aligned {}

impl Aligned {
    /// `len` bytes, at least one, aligned to `align`, and to a page if they fill one.
    pub fn new(len: usize, align: usize) -> Self {
        let align = if len < PAGE { align } else { align.max(PAGE) };
        let layout =
            Layout::from_size_align(len.max(1), align).expect("an alignment the kernel named is a power of two");
        // SAFETY: the layout's size is not zero.
        let ptr = unsafe { alloc::alloc_zeroed(layout) };
        if ptr.is_null() {
            alloc::handle_alloc_error(layout);
        }
        Self { ptr, layout }
    }

    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the allocation is this buffer's alone, of that size, and was zeroed.
        unsafe { slice::from_raw_parts_mut(self.ptr, self.layout.size()) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: allocated with this very layout.
        unsafe { alloc::dealloc(self.ptr, self.layout) };
    }
}
