//! Descriptors: opened, copied, closed.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_ulong};
use std::sync::Arc;

use libc::mode_t;

use super::{arrived, entry};
use crate::closing_fd::ClosingFd;
use crate::closing_fd::fd_gate::{self, FdGate};
use crate::copied_fd::CopiedFd;
use crate::description::Description;
use crate::{fd_table, fork_handlers, known_files, own_fds, real, reentrancy};

/// Registers `fd`, which was just opened with `flags`.
fn opened(fd: c_int, flags: c_int) -> c_int {
    let fd = arrived(fd);
    if fd >= 0 {
        known_files::open(fd, flags);
    }
    fd
}

entry! { open = open64 = __open = __open64, (path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::open(path, flags, mode) }, flags)
}}

entry! { __open_2 = __open64_2, (path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::open(path, flags, 0) }, flags)
}}

entry! { openat = openat64, (folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::openat(folder, path, flags, mode) }, flags)
}}

entry! { __openat_2 = __openat64_2, (folder: c_int, path: *const c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::openat(folder, path, flags, 0) }, flags)
}}

entry! { creat = creat64, (path: *const c_char, mode: mode_t) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::creat(path, mode) }, libc::O_WRONLY)
}}

entry! { mkstemp = mkstemp64, (template: *mut c_char) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::mkstemp(template) }, libc::O_RDWR)
}}

entry! { mkostemp = mkostemp64, (template: *mut c_char, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::mkostemp(template, flags) }, libc::O_RDWR | flags)
}}

entry! { mkstemps = mkstemps64, (template: *mut c_char, suffix: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::mkstemps(template, suffix) }, libc::O_RDWR)
}}

entry! { mkostemps = mkostemps64, (template: *mut c_char, suffix: c_int, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    opened(unsafe { real::mkostemps(template, suffix, flags) }, libc::O_RDWR | flags)
}}

entry! { close = __close, (fd: c_int) -> c_int {
    if own_fds::is(fd) {
        if !reentrancy::is() {
            return no_such();
        }
        own_fds::forget(fd);
    }
    // SAFETY: the program's own arguments.
    left(fd, || unsafe { real::close(fd) })
}}

/// Runs `call`, which closes `fd`.
pub(super) fn left(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let gate = FdGate::over(fd as c_uint, fd as c_uint);
    let closing = ClosingFd::for_close(&gate, fd);
    let done = call();
    drop(closing);
    done
}

fn no_such() -> c_int {
    real::set_errno(libc::EBADF);
    -1
}

entry! { close_range, (first: c_uint, last: c_uint, flags: c_int) -> c_int {
    if flags & libc::CLOSE_RANGE_UNSHARE as c_int != 0 {
        fork_handlers::before_split();
    }
    let closes = first <= last && flags & !(libc::CLOSE_RANGE_UNSHARE as c_int) == 0;
    if !closes {
        // SAFETY: the program's own arguments.
        return unsafe { real::close_range(first, last, flags) };
    }
    let known = first..=last.min(fd_table::FDS as c_uint);
    let gate = FdGate::over(first, last);
    let closing: Vec<_> = known.filter_map(|fd| ClosingFd::for_close(&gate, fd as c_int)).collect();
    // SAFETY: the program's own arguments; none of these is this library's.
    let close = |(first, last)| unsafe { real::close_range(first, last, flags) };
    let done = own_fds::gaps(first, last).map(close).min().unwrap_or(0);
    if done < 0 {
        // Nothing was closed: the kernel cannot do it, or may not.
        closing.iter().for_each(ClosingFd::cancel);
    }
    done
}}

entry! { closefrom, (first: c_int) -> () {
    let first = c_uint::try_from(first).unwrap_or(0);
    // SAFETY: the program's own arguments.
    if unsafe { close_range(first, c_uint::MAX, 0) } != 0 {
        // SAFETY: as above.
        (first as c_int..fd_table::FDS as c_int).for_each(|fd| _ = unsafe { close(fd) });
    }
}}

/// Runs `call`, which makes a copy of `fd`: both share a description. If another thread replaced `fd` at the same time,
/// the file of the copy is unknown, and the copy is the kernel's, as are the offsets of both files.
pub(super) fn copied(fd: c_int, call: impl FnOnce() -> c_int) -> c_int {
    let source = CopiedFd::of(fd);
    let copy = arrived(call());
    if copy >= 0 {
        match source.it() {
            _ if !source.is_sure() => left_to_kernel(&source, copy),
            Some(it) => _ = shared(it, copy).map(|it| fd_table::put(copy, it)),
            None => {}
        }
    }
    copy
}

/// Returns the entry for `copy`, a copy of the descriptor of `it`.
fn shared(it: &Arc<Description>, copy: c_int) -> Option<Arc<Description>> {
    if !fd_table::has_room(copy) {
        it.surrender(copy);
        return None;
    }
    if fd_table::STANDARD.contains(&copy) {
        it.become_standard(copy);
    }
    Some(Arc::clone(it))
}

/// Stores new flags of `fd`.
fn flagged(fd: c_int, flags: c_int) {
    let Some(it) = fd_table::held(fd) else { return };
    it.set_flags(flags);
    if it.is_standard() {
        it.become_standard(fd);
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

/// Runs `call`, which makes `to` a copy of `fd`. For either file that another thread uses through `to` at that time,
/// the kernel has the offset (LD2).
pub(super) fn replaced(fd: c_int, to: c_int, call: impl FnOnce() -> c_int) -> c_int {
    if fd == to {
        return call();
    }
    if own_fds::is(to) && !reentrancy::is() {
        real::set_errno(libc::EBUSY);
        return -1;
    }
    let gate = FdGate::over(to as c_uint, to as c_uint);
    let source = CopiedFd::of(fd);
    if source.is_also(to) {
        let done = call();
        if done >= 0 && !(source.is_sure() && source.is_also(to)) {
            left_to_kernel(&source, to);
        }
        return done;
    }
    if let Some(it) = source.it() {
        if fd_table::STANDARD.contains(&to) {
            it.become_standard(fd);
        } else if is_open(to) {
            it.surrender_unless_standard(fd);
        }
    }
    let closing = ClosingFd::for_replace(&gate, to);
    let done = call();
    if done < 0 {
        closing.cancel();
    } else if !source.is_sure() || !closing.complete(source.it().and_then(|it| shared(it, to))) {
        left_to_kernel(&source, to);
    }
    done
}

/// Leaves `copy` to the kernel: it is unknown whether it is a copy of `source`.
fn left_to_kernel(source: &CopiedFd, copy: c_int) {
    source.surrender_unless_standard();
    fd_gate::mark_as_kernels(copy);
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
        if let Some(it) = fd_table::held(fd) {
            it.show(fd);
        }
    }
    // SAFETY: the program's own arguments.
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
