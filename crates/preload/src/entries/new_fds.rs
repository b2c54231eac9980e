//! Other functions that return descriptors, and the functions that create processes and return in both.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{mode_t, msghdr, sockaddr, socklen_t, ssize_t};

use super::prepared_calls::surrender_fd;
use super::{arrived, entry};
use crate::{fork_handlers, real};

macro_rules! arrivals {
    ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        entry! { $name, ($($argument: $kind),*) -> c_int {
            // SAFETY: the program's own arguments.
            arrived(unsafe { real::$name($($argument),*) })
        }}
    )*};
}

arrivals! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int);
    fn accept(fd: c_int, address: *mut sockaddr, len: *mut socklen_t);
    fn accept4(fd: c_int, address: *mut sockaddr, len: *mut socklen_t, flags: c_int);
    fn eventfd(count: c_uint, flags: c_int);
    fn epoll_create(size: c_int);
    fn epoll_create1(flags: c_int);
    fn timerfd_create(clock: c_int, flags: c_int);
    fn signalfd(fd: c_int, mask: *const c_void, flags: c_int);
    fn inotify_init();
    fn inotify_init1(flags: c_int);
    fn memfd_create(name: *const c_char, flags: c_uint);
    fn pidfd_open(pid: c_int, flags: c_uint);
    fn shm_open(name: *const c_char, flags: c_int, mode: mode_t);
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int);
}

// The process may be this one.
entry! { pidfd_getfd, (process: c_int, fd: c_int, flags: c_uint) -> c_int {
    surrender_fd(fd);
    // SAFETY: no pointer is passed.
    arrived(unsafe { real::pidfd_getfd(process, fd, flags) })
}}

/// Registers two new descriptors, if the call succeeded.
unsafe fn both(done: c_int, pair: *mut c_int) -> c_int {
    if done == 0 {
        for at in 0..2 {
            // SAFETY: the kernel has just written two descriptors there.
            unsafe { *pair.add(at) = arrived(*pair.add(at)) };
        }
    }
    done
}

entry! { pipe = __pipe, (pair: *mut c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { both(real::pipe(pair), pair) }
}}

entry! { pipe2, (pair: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { both(real::pipe2(pair, flags), pair) }
}}

entry! { socketpair, (domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: the program's own arguments.
    unsafe { both(real::socketpair(domain, kind, protocol, pair), pair) }
}}

// One option is a descriptor.
entry! { getsockopt, (fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    // SAFETY: the program's own arguments.
    let done = unsafe { real::getsockopt(fd, level, option, value, len) };
    if done == 0 && (level, option) == (libc::SOL_SOCKET, libc::SO_PEERPIDFD) {
        let made: *mut c_int = value.cast();
        // SAFETY: the kernel has just written a descriptor there.
        unsafe { made.write_unaligned(arrived(made.read_unaligned())) };
    }
    done
}}

entry! { recvmsg, (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's own arguments.
    let done = unsafe { real::recvmsg(fd, message, flags) };
    if done >= 0 {
        // SAFETY: the kernel has just filled it.
        unsafe { each_passed(message, |fd| *fd = arrived(*fd)) };
    }
    done
}}

/// Calls `each` for every descriptor in the control part of `message`.
///
/// # Safety
/// The control part is as the kernel wrote it, or as it will be sent.
pub unsafe fn each_passed(message: *const msghdr, mut each: impl FnMut(&mut c_int)) {
    // SAFETY: the caller's promise.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header within the control part.
    while let Some(found) = unsafe { header.as_ref() } {
        if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: only arithmetic.
            let (fds, len) = unsafe { (libc::CMSG_DATA(header).cast::<c_int>(), libc::CMSG_LEN(0) as usize) };
            for at in 0..found.cmsg_len.saturating_sub(len) / size_of::<c_int>() {
                // SAFETY: within the header's own length; no other thread has the message during the call.
                each(unsafe { &mut *fds.add(at) });
            }
        }
        // SAFETY: the caller's promise.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

// The parent waits until the child has run another program or has ended. Its memory is not shared with the child:
// changes of this library's state by the child could not be undone.
entry! { vfork = __vfork, () -> c_int {
    let flags = c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: a child with memory of its own continues where its parent is.
    plain_child(|| unsafe { real::syscall(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) } as c_int)
}}

entry! { _Fork, () -> c_int {
    // SAFETY: nothing is passed.
    plain_child(|| unsafe { real::_Fork() })
}}

/// Creates a child by `call`, without preparation.
fn plain_child(call: impl FnOnce() -> c_int) -> c_int {
    fork_handlers::before_copy();
    let child = call();
    if child == 0 {
        fork_handlers::become_plain();
    }
    child
}
