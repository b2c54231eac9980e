//! The calls with several buffers. Parts are done directly one by one, at one place of the file: threads share an
//! offset, and no thread comes between two parts of another. Several short parts to append are joined first, because
//! others may append between two. Longer ones go through the kernel, and so do flags that request more than durable
//! bytes.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::{ptr, slice};

use libc::{iovec, off_t, ssize_t};

use super::{entry, read_write};
use crate::description::{Description, FEW, IoParts, PartsWritten};
use crate::leased_file::ClaimedPlace;
use crate::{fd_table, known_files, real, signals};

/// The most parts that the kernel accepts.
const MOST: c_int = 1024;

/// Returns the parts, if the kernel would accept them and they have bytes.
///
/// # Safety
/// `parts` are `count` of them.
unsafe fn listed<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    let fits =
        (1..=MOST).contains(&count) && read_write::may_be_memory(parts.addr(), count as usize * size_of::<iovec>());
    // SAFETY: the caller's promise.
    let listed = fits.then(|| unsafe { slice::from_raw_parts(parts, count as usize) })?;
    let sum = listed.iter().try_fold(0_usize, |sum, part| sum.checked_add(part.iov_len))?;
    (1..isize::MAX as usize).contains(&sum).then_some(listed)
}

/// Returns the parts, if they can be handled one by one.
///
/// # Safety
/// The conditions of [`listed`].
unsafe fn few<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    // SAFETY: the caller's promise.
    unsafe { listed(parts, count) }.filter(|parts| parts.len() <= FEW)
}

/// The most bytes that are joined on the stack.
const TOGETHER: usize = 4 << 10;

/// The method by which parts are written.
enum PartsMethod<'a> {
    /// One by one, to a place of their own.
    InTurn(&'a [iovec]),
    /// Joined.
    Together(&'a [iovec]),
    ByKernel,
}

/// # Safety
/// The conditions of [`listed`].
unsafe fn how<'a>(fd: c_int, parts: *const iovec, count: c_int) -> PartsMethod<'a> {
    // SAFETY: the caller's promise.
    let few = unsafe { few(parts, count) };
    let Some((parts, appends)) = few.zip(fd_table::with(fd, |it| it.learns_to_append(fd))) else {
        return PartsMethod::ByKernel;
    };
    let may_be_read = |part: &iovec| part.iov_len == 0 || read_write::may_be_memory(part.iov_base.addr(), part.iov_len);
    match parts {
        [_] => PartsMethod::InTurn(parts),
        _ if !appends => PartsMethod::InTurn(parts),
        // A handler's own stack may have no room for the joined bytes.
        _ if sum(parts) > TOGETHER || !parts.iter().all(may_be_read) || signals::is_on_own_stack() => {
            PartsMethod::ByKernel
        }
        _ => PartsMethod::Together(parts),
    }
}

fn sum(parts: &[iovec]) -> usize {
    parts.iter().map(|part| part.iov_len).sum()
}

/// Calls `work` with the bytes of all parts, which are [`TOGETHER`] at most.
///
/// # Safety
/// Each part is the program's to read.
#[inline(never)]
unsafe fn together<T>(parts: &[iovec], work: impl FnOnce(*const c_void, usize) -> T) -> T {
    let mut room = [MaybeUninit::<u8>::uninit(); TOGETHER];
    let mut at = 0;
    for part in parts.iter().filter(|part| part.iov_len > 0) {
        let into = room[at..at + part.iov_len].as_mut_ptr();
        // SAFETY: the slice has room for the part, and the caller promises that the part is readable.
        unsafe { ptr::copy_nonoverlapping(part.iov_base.cast(), into, part.iov_len) };
        at += part.iov_len;
    }
    work(room.as_ptr().cast(), at)
}

entry! { readv, (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    match unsafe { listed(parts, count) }.filter(|_| fd_table::has(fd)) {
        // SAFETY: the program's own arguments.
        Some([part]) => unsafe { read_write::read(fd, part.iov_base, part.iov_len) },
        // SAFETY: the program's own arguments.
        Some(parts) => read_all(fd, &unsafe { IoParts::new(parts) }),
        // SAFETY: the program's own arguments.
        None => by_kernel(fd, || unsafe { real::readv(fd, parts, count) }),
    }
}}

fn read_all(fd: c_int, parts: &IoParts<'_>) -> ssize_t {
    fd_table::with(fd, |it| it.read_parts(parts)).flatten().map_or_else(|| read_slowly(fd, parts), read_write::direct)
}

#[cold]
fn read_slowly(fd: c_int, parts: &IoParts<'_>) -> ssize_t {
    let Some(it) = fd_table::held(fd) else { return parts.read(fd) };
    if parts.are_few()
        && it.has_offset()
        && it.may_retry_read(parts.len())
        && let Some(len) = it.read_parts(parts)
    {
        return read_write::direct(len);
    }
    read_write::through(it.read_parts_by_kernel(fd, parts))
}

/// Reads from byte `at` on.
fn read_at(fd: c_int, parts: &IoParts<'_>, at: u64) -> ssize_t {
    let by_kernel = || parts.read_at(fd, at as off_t);
    match fd_table::with(fd, |it| it.read_parts_at(at, parts)) {
        Some(Some(len)) => read_write::direct(len),
        Some(None) => {
            read_at_slowly(fd, parts, at).map_or_else(|| read_write::through(by_kernel()), read_write::direct)
        }
        None => by_kernel(),
    }
}

#[cold]
fn read_at_slowly(fd: c_int, parts: &IoParts<'_>, at: u64) -> Option<usize> {
    let it = fd_table::held(fd).filter(|it| parts.are_few() && it.may_retry_read(parts.len()))?;
    it.read_parts_at(at, parts)
}

entry! { writev, (fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    match unsafe { how(fd, parts, count) } {
        // SAFETY: the program's own arguments.
        PartsMethod::InTurn([part]) => unsafe { read_write::write(fd, part.iov_base, part.iov_len) },
        // SAFETY: the program's own arguments.
        PartsMethod::InTurn(parts) => write_all(fd, &unsafe { IoParts::new(parts) }),
        // SAFETY: the program's own arguments.
        PartsMethod::Together(parts) => unsafe { together(parts, |from, len| read_write::write(fd, from, len)) },
        // SAFETY: the program's own arguments.
        PartsMethod::ByKernel => match unsafe { listed(parts, count) }.filter(|_| fd_table::has(fd)) {
            // SAFETY: the program's own arguments.
            Some(parts) => write_long(fd, &unsafe { IoParts::new(parts) }),
            // SAFETY: the program's own arguments.
            None => by_kernel(fd, || unsafe { real::writev(fd, parts, count) }),
        },
    }
}}

/// Writes parts that are not handled one by one, or could not be appended so.
fn write_long(fd: c_int, parts: &IoParts<'_>) -> ssize_t {
    match fd_table::held(fd).filter(|it| it.appends()) {
        Some(it) => read_write::through(it.write_parts_by_kernel(fd, parts)),
        None => write_slowly(fd, parts, None),
    }
}

fn write_all(fd: c_int, parts: &IoParts<'_>) -> ssize_t {
    let tried = fd_table::with(fd, |it| match it.write_parts(parts) {
        PartsWritten::Bytes(len) => Ok(len),
        // Held by the claim: `fd` may be another file's by then.
        PartsWritten::Claimed(place, done) => Err(Some((it.kept(), (place, done)))),
        PartsWritten::Not => Err(None),
    });
    match tried {
        Some(Ok(len)) => read_write::direct(len),
        Some(Err(claimed)) => write_slowly(fd, parts, claimed),
        None => write_slowly(fd, parts, None),
    }
}

#[cold]
fn write_slowly(fd: c_int, parts: &IoParts<'_>, claimed: Option<(Arc<Description>, (ClaimedPlace, usize))>) -> ssize_t {
    let (it, place) = claimed.map_or_else(|| (fd_table::held(fd), None), |(it, place)| (Some(it), Some(place)));
    let Some(it) = it else { return parts.write(fd) };
    match it.write_parts_slowly(fd, parts, place) {
        (result, true) => read_write::direct(result as usize),
        (result, false) => read_write::through(result),
    }
}

/// Runs a kernel call that uses the offset.
fn by_kernel(fd: c_int, call: impl FnOnce() -> ssize_t) -> ssize_t {
    let Some(it) = fd_table::held(fd) else { return call() };
    it.lend(fd, || read_write::through(call()))
}

/// Writes from byte `at` on, if the description does not append.
fn write_at(fd: c_int, parts: &IoParts<'_>, at: u64) -> ssize_t {
    match fd_table::with(fd, |it| it.write_parts_at(at, parts).map_err(|done| (it.kept(), done))) {
        Some(Ok(len)) => read_write::direct(len),
        Some(Err((it, done))) => write_at_slowly(fd, &it, parts, at, done),
        None => parts.write_at(fd, at as off_t),
    }
}

#[cold]
fn write_at_slowly(fd: c_int, it: &Description, parts: &IoParts<'_>, at: u64, done: usize) -> ssize_t {
    match it.write_parts_at_slowly(fd, parts, at, done) {
        (result, true) => read_write::direct(result as usize),
        (result, false) => read_write::through(result),
    }
}

entry! { preadv = preadv64, (fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    match unsafe { listed(parts, count) }.zip(u64::try_from(at).ok()) {
        // SAFETY: the program's own arguments.
        Some((parts, at)) => read_at(fd, &unsafe { IoParts::new(parts) }, at),
        // SAFETY: the program's own arguments.
        None => unsafe { real::preadv(fd, parts, count, at) },
    }
}}

entry! { pwritev = pwritev64, (fd: c_int, parts: *const iovec, count: c_int, at: off_t) -> ssize_t {
    // SAFETY: the program's own arguments.
    match unsafe { how(fd, parts, count) } {
        // SAFETY: the program's own arguments.
        PartsMethod::InTurn([part]) => unsafe { read_write::pwrite(fd, part.iov_base, part.iov_len, at) },
        // SAFETY: the program's own arguments.
        PartsMethod::InTurn(parts) if at >= 0 => write_at(fd, &unsafe { IoParts::new(parts) }, at as u64),
        // SAFETY: the program's own arguments.
        PartsMethod::Together(parts) if at >= 0 => unsafe { together(parts, |from, len| read_write::pwrite(fd, from, len, at)) },
        _ => {
            read_write::query_end(fd);
            // SAFETY: the program's own arguments.
            unsafe { real::pwritev(fd, parts, count, at) }
        }
    }
}}

/// Flags whose effect direct reads have too, or do not need.
const OF_READS: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC | libc::RWF_SYNC;
/// Flags whose effect direct writes have too; RWF_SYNC also makes the time of the write durable, so it is not one.
const OF_WRITES: c_int = libc::RWF_HIPRI | libc::RWF_DSYNC;
/// Stands for the kernel's offset.
const AT_OFFSET: off_t = -1;

entry! { preadv2 = preadv64v2, (fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    let listed = unsafe { listed(parts, count) }.filter(|_| at >= AT_OFFSET && fd_table::has(fd));
    // SAFETY: the program's own arguments.
    let by_kernel = || unsafe { real::preadv2(fd, parts, count, at, flags) };
    // SAFETY: the program's own arguments.
    let Some(parts) = listed.map(|parts| unsafe { IoParts::new(parts) }.by(flags)) else { return by_kernel() };
    match (at, flags & !OF_READS) {
        (AT_OFFSET, 0) => read_all(fd, &parts),
        (AT_OFFSET, _) => fd_table::held(fd).map_or_else(by_kernel, |it| read_write::through(it.read_parts_by_kernel(fd, &parts))),
        (_, 0) => read_at(fd, &parts, at as u64),
        _ => read_write::through(by_kernel()),
    }
}}

entry! { pwritev2 = pwritev64v2, (fd: c_int, parts: *const iovec, count: c_int, at: off_t, flags: c_int) -> ssize_t {
    match (at, flags) {
        // SAFETY: the program's own arguments.
        (AT_OFFSET, 0) => return unsafe { writev(fd, parts, count) },
        // SAFETY: the program's own arguments.
        (_, 0) => return unsafe { pwritev(fd, parts, count, at) },
        _ => {}
    }
    // SAFETY: the program's own arguments.
    let listed = unsafe { listed(parts, count) }.filter(|_| at >= AT_OFFSET);
    // SAFETY: the program's own arguments.
    let by_kernel = || unsafe { real::pwritev2(fd, parts, count, at, flags) };
    let Some((parts, it)) = listed.zip(fd_table::held(fd)) else {
        if flags & libc::RWF_APPEND != 0 {
            // The descriptor may be inherited or passed, and its sender may write on directly (LD7).
            known_files::query_size(fd);
        }
        return by_kernel();
    };
    // SAFETY: the program's own arguments.
    let parts = unsafe { IoParts::new(parts) }.by(flags);
    let is_direct = flags & !OF_WRITES == 0 && parts.are_few() && !it.learns_to_append(fd);
    match at {
        AT_OFFSET if is_direct && !it.is_standard() => write_all(fd, &parts),
        AT_OFFSET => read_write::through(it.write_parts_by_kernel(fd, &parts)),
        _ if is_direct => write_at(fd, &parts, at as u64),
        _ => {
            // LD7: the write may go to the end.
            known_files::query_size(fd);
            read_write::through(by_kernel())
        }
    }
}}
