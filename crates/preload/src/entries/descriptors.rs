//! Descriptors: opened, copied, closed.
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong};
use std::sync::Arc;

use libc::mode_t;

use super::{arrived, entry};
use crate::departure::{self, Departure};
use crate::description::Description;
use crate::{forks, inside, ours, real, table, tracked};

/// `fd` is a file that was just opened with `flags`.
fn opened(fd: c_int, flags: c_int) -> c_int {
    let fd = arrived(fd);
    if fd >= 0 {
        tracked::open(fd, flags);
    }
    fd
}

entry! { open = open64 = __open = __open64, (path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::open(path, flags, mode) }, flags)
}}

entry! { __open_2 = __open64_2, (path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::open(path, flags, 0) }, flags)
}}

entry! { openat = openat64, (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::openat(folder, path, flags, mode) }, flags)
}}

entry! { __openat_2 = __openat64_2, (folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::openat(folder, path, flags, 0) }, flags)
}}

entry! { creat = creat64, (path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::creat(path, mode) }, libc::O_WRONLY)
}}

entry! { mkstemp = mkstemp64, (template: *mut c_char) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::mkstemp(template) }, libc::O_RDWR)
}}

entry! { mkostemp = mkostemp64, (template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::mkostemp(template, flags) }, libc::O_RDWR | flags)
}}

entry! { mkstemps = mkstemps64, (template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::mkstemps(template, suffix) }, libc::O_RDWR)
}}

entry! { mkostemps = mkostemps64, (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: as the program has it.
    opened(unsafe { real::mkostemps(template, suffix, flags) }, libc::O_RDWR | flags)
}}

entry! { close = __close, (fd: c_int) -> c_int {
    if ours::is(fd) {
        if !inside::is() {
            return no_such();
        }
        ours::forget(fd);
    }
    // SAFETY: as the program has it.
    left(fd, || unsafe { real::close(fd) })
}}

/// `fd` is closed by `call`.
pub(super) fn left(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let departure = Departure::of_closed(fd);
    let done = call();
    drop(departure);
    done
}

fn no_such() -> c_int {
    real::set_errno(libc::EBADF);
    -1
}

entry! { close_range, (first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0 {
        forks::before_split();
    }
    let closes = first <= last && flags & !(libc::CLOSE_RANGE_UNSHARE as c_int) == 0;
    if !closes {
        // SAFETY: as the program has it.
        return unsafe { real::close_range(first, last, flags) };
    }
    let known = first..=last.min(table::FDS as c_uint);
    let departures: Vec<_> = known.filter_map(|fd| Departure::of_closed(fd as c_int)).collect();
    // SAFETY: as the program has it; none of these is ours.
    let close = |(first, last)| unsafe { real::close_range(first, last, flags) };
    let done = ours::gaps(first, last).map(close).min().unwrap_or(0);
    if done < 0 {
        // Nothing was closed: this kernel cannot do it, or may not.
        departures.into_iter().for_each(Departure::stays);
    }
    done
}}

entry! { closefrom, (first: c_int) -> () {
    let first = c_uint::try_from(first).unwrap_or(0);
    // SAFETY: as the program has it.
    if unsafe { close_range(first, c_uint::MAX, 0) } != 0 {
        // SAFETY: as above.
        (first as c_int..table::FDS as c_int).for_each(|fd| _ = unsafe { close(fd) });
    }
}}

/// A copy of `fd` is made by `call`: they share a description. If another thread has replaced `fd` meanwhile nobody knows of
/// which file the copy is, and it is the kernel's, as the offsets of both files are.
pub(super) fn copied(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let before = table::held(fd);
    let copy = arrived(call());
    if copy >= 0 {
        match (before, table::held(fd)) {
            (Some(before), Some(it)) if Arc::ptr_eq(&before, &it) => share(&it, copy),
            (None, None) => {}
            _ => departure::leave_to_kernel(copy),
        }
    }
    copy
}

fn share(it: &Arc<Description>, copy: c_int) {
    if !table::has_room(copy) {
        return it.surrender(copy);
    }
    if table::STANDARD.contains(&copy) {
        it.stand(copy);
    }
    table::put(copy, Arc::clone(it));
}

/// The flags of `fd` were set anew.
fn flagged(fd: c_int, flags: c_int) {
    let Some(it) = table::held(fd) else { return };
    it.set_flags(flags);
    if it.is_standard() {
        it.stand(fd);
    }
}

entry! { dup, (fd: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    copied(fd, || unsafe { real::dup(fd) })
}}

entry! { dup2 = __dup2, (fd: c_int, to: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    replaced(fd, to, || unsafe { real::dup2(fd, to) })
}}

entry! { dup3, (fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: no pointer is passed.
    replaced(fd, to, || unsafe { real::dup3(fd, to, flags) })
}}

/// `to` is made a copy of `fd` by `call`. Whichever of both files another thread meets by `to` meanwhile, the kernel has
/// its offset (LD2).
pub(super) fn replaced(fd: c_int, to: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if fd == to {
        return call();
    }
    if ours::is(to) && !inside::is() {
        real::set_errno(libc::EBUSY);
        return -1;
    }
    let (it, before) = (table::held(fd), table::held(to));
    let is_copy = it.as_ref().zip(before.as_ref()).is_some_and(|(it, before)| Arc::ptr_eq(it, before));
    if is_copy || it.is_none() && before.is_none() {
        return call();
    }
    drop(before);
    if let Some(it) = &it {
        if table::STANDARD.contains(&to) {
            it.stand(fd);
        } else if is_open(to) {
            it.lodge(fd);
        }
    }
    let departure = Departure::of_replaced(to);
    let done = call();
    match it {
        _ if done < 0 => departure.stays(),
        Some(it) => share(&it, to),
        None => {}
    }
    done
}

fn is_open(fd: c_int) -> bool {
    let errno = real::errno();
    // SAFETY: no pointer is passed.
    let is_open = unsafe { real::fcntl(fd, libc::F_GETFD, 0) } >= 0;
    real::set_errno(errno);
    is_open
}

entry! { fcntl = fcntl64 = __fcntl, (fd: c_int, command: c_int, argument: c_ulong) -> c_int {
    if matches!(command, libc::F_SETLK | libc::F_SETLKW | libc::F_GETLK)
        || matches!(command, libc::F_OFD_SETLK | libc::F_OFD_SETLKW | libc::F_OFD_GETLK)
    {
        // The range may be counted from the offset.
        if let Some(it) = table::held(fd) {
            it.show(fd);
        }
    }
    // SAFETY: as the program has it.
    let call = || unsafe { real::fcntl(fd, command, argument) };
    if matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) {
        return copied(fd, call);
    }
    let done = call();
    if command == libc::F_SETFL && done == 0 {
        flagged(fd, argument as c_int);
    }
    done
}}
