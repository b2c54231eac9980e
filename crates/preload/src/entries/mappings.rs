//! Mappings: those of the region of a guest are this library's, all others the kernel's.
//!
//! Unsafe because any code can call these names, with the program's places.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

use libc::{off_t, size_t};

use super::entry;
use super::prepared_calls::map_with;
use crate::mapped_region::{self, MapCall};
use crate::real;

entry! { mmap = mmap64, (
    place: *mut c_void, len: size_t, rights: c_int, flags: c_int, fd: c_int, at: off_t
) -> *mut c_void {
    let replaces = flags & libc::MAP_FIXED != 0;
    if let Some(mapped) = mapped_region::map(&MapCall { place, len, rights, flags, fd, at }) {
        return mapped;
    }
    if replaces && mapped_region::changed(c"mmap", place, len).is_some() {
        return libc::MAP_FAILED;
    }
    map_with(fd, flags);
    // SAFETY: the program's own arguments.
    unsafe { real::mmap(place, len, rights, flags, fd, at) }
}}

entry! { munmap, (place: *mut c_void, len: size_t) -> c_int {
    // SAFETY: the program's own arguments.
    mapped_region::unmap(place, len).unwrap_or_else(|| unsafe { real::munmap(place, len) })
}}

entry! { mprotect, (place: *mut c_void, len: size_t, rights: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    mapped_region::protect(place, len, rights).unwrap_or_else(|| unsafe { real::mprotect(place, len, rights) })
}}

entry! { madvise, (place: *mut c_void, len: size_t, advice: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    mapped_region::advise(place, len, advice).unwrap_or_else(|| unsafe { real::madvise(place, len, advice) })
}}

// The new place is an argument only if the flags say so.
entry! { mremap, (
    place: *mut c_void, len: size_t, new_len: size_t, flags: c_int, new_place: *mut c_void
) -> *mut c_void {
    let is_refused = |place, len| mapped_region::changed(c"mremap", place, len).is_some();
    // A length of 0 maps the pages from `place` on a second time.
    if is_refused(place, len.max(1)) || flags & libc::MREMAP_FIXED != 0 && is_refused(new_place, new_len) {
        return libc::MAP_FAILED;
    }
    // SAFETY: the program's own arguments.
    unsafe { real::mremap(place, len, new_len, flags, new_place) }
}}
