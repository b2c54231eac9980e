//! Reading and writing.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::slice;
use std::sync::Arc;

use ferrite_memory::pin;
use libc::{off_t, size_t, ssize_t};

use super::entry;
use crate::description::{Description, OffsetWrite};
use crate::leased_file::ClaimedPlace;
use crate::{call_tally, fd_table, known_files, real};

/// The most bytes that the kernel moves in one call.
pub const MOST: usize = 0x7fff_f000;

/// Below this address nothing is mapped (`vm.mmap_min_addr`), and above the next neither, unless it was requested.
const LOWEST: usize = 1 << 16;
const HIGHEST: usize = (1 << 47) - (1 << 12);

/// Returns true if a program can have memory there; otherwise the kernel reports the fault.
#[inline(always)]
pub fn may_be_memory(at: usize, len: usize) -> bool {
    len <= HIGHEST - LOWEST && at.wrapping_sub(LOWEST) <= HIGHEST - LOWEST - len
}

/// Returns the program's buffer for writing, unless only the kernel can report its fault.
///
/// # Safety
/// `into` is for `len` bytes, as for read(2).
unsafe fn room<'a>(into: *mut c_void, len: usize) -> Option<&'a mut [u8]> {
    let fits = len > 0 && may_be_memory(into.addr(), len);
    // SAFETY: the caller's promise.
    fits.then(|| unsafe { slice::from_raw_parts_mut(into.cast(), len.min(MOST)) })
}

/// Returns the program's buffer for reading, unless only the kernel can report its fault.
///
/// # Safety
/// `from` is `len` bytes, as for write(2).
unsafe fn bytes<'a>(from: *const c_void, len: usize) -> Option<&'a [u8]> {
    let fits = len > 0 && may_be_memory(from.addr(), len);
    // SAFETY: the caller's promise.
    fits.then(|| unsafe { slice::from_raw_parts(from.cast(), len.min(MOST)) })
}

/// Counts a direct call of `len` bytes.
pub fn direct(len: usize) -> ssize_t {
    call_tally::direct(len);
    len as ssize_t
}

/// Counts a call through the mount.
pub fn through(result: ssize_t) -> ssize_t {
    call_tally::mount(result);
    result
}

entry! { read = __read, (fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    let tried = fd_table::pinned(fd, |it, pin| unsafe { room(into, len) }.and_then(|room| it.read(pin, room)));
    match tried {
        Some(Some(len)) => direct(len),
        // SAFETY: the program's own arguments.
        Some(None) => unsafe { read_slowly(fd, into, len) },
        // SAFETY: the program's own arguments.
        None => unsafe { real::read(fd, into, len) },
    }
}}

#[cold]
unsafe fn read_slowly(fd: c_int, into: *mut c_void, len: size_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    let Some(it) = fd_table::held(fd) else { return unsafe { real::read(fd, into, len) } };
    // SAFETY: the program's own arguments.
    if let Some(room) = unsafe { room(into, len) } {
        match it.read_standard(fd, room) {
            Some((result, true)) => return direct(result as usize),
            Some((result, false)) => return through(result),
            None => {}
        }
        if it.has_offset()
            && it.may_retry_read(room.len())
            && let Some(len) = it.read(&pin(), room)
        {
            return direct(len);
        }
    }
    // SAFETY: the program's own arguments.
    through(unsafe { it.read_by_kernel(fd, into, len) })
}

entry! { __read_chk, (fd: c_int, into: *mut c_void, len: size_t, most: size_t) -> ssize_t {
    if len > most {
        // SAFETY: the program's own arguments; this ends the program.
        return unsafe { real::__read_chk(fd, into, len, most) };
    }
    // SAFETY: the program's own arguments.
    unsafe { read(fd, into, len) }
}}

entry! { pread = pread64 = __pread64, (fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    let tried = fd_table::pinned(fd, |it, pin| {
        // SAFETY: the program's own arguments.
        let room = unsafe { room(into, len) };
        room.zip(u64::try_from(at).ok()).and_then(|(room, at)| it.read_at(pin, at, room))
    });
    match tried {
        Some(Some(len)) => direct(len),
        // SAFETY: the program's own arguments.
        Some(None) => unsafe { pread_slowly(fd, into, len, at) },
        // SAFETY: the program's own arguments.
        None => unsafe { real::pread(fd, into, len, at) },
    }
}}

#[cold]
unsafe fn pread_slowly(fd: c_int, into: *mut c_void, len: size_t, at: off_t) -> ssize_t {
    let tried = fd_table::held(fd).and_then(|it| {
        let from = u64::try_from(at).ok()?;
        // SAFETY: the program's own arguments.
        let room = unsafe { room(into, len) }.filter(|room| it.may_retry_read(room.len()))?;
        it.read_at(&pin(), from, room)
    });
    // SAFETY: the program's own arguments.
    tried.map_or_else(|| through(unsafe { real::pread(fd, into, len, at) }), direct)
}

entry! { __pread_chk = __pread64_chk,
    (fd: c_int, into: *mut c_void, len: size_t, at: off_t, most: size_t) -> ssize_t {
    if len > most {
        // SAFETY: the program's own arguments; this ends the program.
        return unsafe { real::__pread_chk(fd, into, len, at, most) };
    }
    // SAFETY: the program's own arguments.
    unsafe { pread(fd, into, len, at) }
}}

entry! { write = __write, (fd: c_int, from: *const c_void, len: size_t) -> ssize_t {
    let tried = fd_table::pinned(fd, |it, pin| {
        // SAFETY: the program's own arguments.
        let written = unsafe { bytes(from, len) }.map_or(OffsetWrite::Not, |bytes| it.write(pin, fd, bytes));
        match written {
            OffsetWrite::Bytes(len) => Ok(len),
            // Held by the claim: `fd` may be another file's by then.
            OffsetWrite::Claimed(place) => Err(Some((it.kept(), place))),
            OffsetWrite::Not => Err(None),
        }
    });
    match tried {
        Some(Ok(len)) => direct(len),
        // SAFETY: the program's own arguments.
        Some(Err(claimed)) => unsafe { write_slowly(fd, from, len, claimed) },
        // SAFETY: the program's own arguments.
        None => unsafe { real::write(fd, from, len) },
    }
}}

#[cold]
unsafe fn write_slowly(
    fd: c_int,
    from: *const c_void,
    len: size_t,
    claimed: Option<(Arc<Description>, ClaimedPlace)>,
) -> ssize_t {
    let (it, place) = claimed.map_or_else(|| (fd_table::held(fd), None), |(it, place)| (Some(it), Some(place)));
    // SAFETY: the program's own arguments.
    let (Some(it), Some(bytes)) = (it, unsafe { bytes(from, len) }) else {
        // SAFETY: the program's own arguments.
        return unsafe { real::write(fd, from, len) };
    };
    // SAFETY: the program's own arguments.
    match unsafe { it.write_slowly(fd, bytes, place) } {
        (result, true) => direct(result as usize),
        (result, false) => through(result),
    }
}

/// Queries the end before the kernel writes to a given place, which it does at the end if the description appends
/// (LD7).
pub fn query_end(fd: c_int) {
    if fd_table::with(fd, |it| it.appends()) == Some(true) {
        known_files::query_size(fd);
    }
}

entry! { pwrite = pwrite64 = __pwrite64, (fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    let tried = fd_table::pinned(fd, |it, pin| {
        // SAFETY: the program's own arguments.
        let bytes = unsafe { bytes(from, len) };
        bytes.zip(u64::try_from(at).ok()).and_then(|(bytes, at)| it.write_at(pin, fd, at, bytes))
    });
    match tried {
        Some(Some(len)) => direct(len),
        // SAFETY: the program's own arguments.
        Some(None) => unsafe { pwrite_slowly(fd, from, len, at) },
        // SAFETY: the program's own arguments.
        None => unsafe { real::pwrite(fd, from, len, at) },
    }
}}

#[cold]
unsafe fn pwrite_slowly(fd: c_int, from: *const c_void, len: size_t, at: off_t) -> ssize_t {
    let tried = fd_table::held(fd).and_then(|it| {
        // SAFETY: the program's own arguments.
        let (bytes, at) = (unsafe { bytes(from, len) }?, u64::try_from(at).ok()?);
        it.may_retry_write(fd, at, bytes.len()).then(|| it.write_at(&pin(), fd, at, bytes)).flatten()
    });
    if tried.is_none() {
        query_end(fd);
    }
    // SAFETY: the program's own arguments.
    tried.map_or_else(|| through(unsafe { real::pwrite(fd, from, len, at) }), direct)
}
