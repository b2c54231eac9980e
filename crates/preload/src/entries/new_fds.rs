//! Whatever else gives out descriptors, and the functions that make processes and come back in both.
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code, non_snake_case)]

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{mode_t, msghdr, sockaddr, socklen_t, ssize_t};

use super::prepared_calls::surrender_fd;
use super::{arrived, entry};
use crate::{fork_handlers, real};

macro_rules! arrivals {
    ($(fn $name:ident($($argument:ident: $kind:ty),*);)*) => {$(
        entry! { $name, ($($argument: $kind),*) -> c_int {
            // SAFETY: as the program has it.
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

/// Two that were made at once, if they were.
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
    // SAFETY: as the program has it.
    unsafe { both(real::pipe(pair), pair) }
}}

entry! { pipe2, (pair: *mut c_int, flags: c_int) -> c_int {
    // SAFETY: as the program has it.
    unsafe { both(real::pipe2(pair, flags), pair) }
}}

entry! { socketpair, (domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int {
    // SAFETY: as the program has it.
    unsafe { both(real::socketpair(domain, kind, protocol, pair), pair) }
}}

// One option is a descriptor.
entry! { getsockopt, (fd: c_int, level: c_int, option: c_int, value: *mut c_void, len: *mut socklen_t) -> c_int {
    // SAFETY: as the program has it.
    let done = unsafe { real::getsockopt(fd, level, option, value, len) };
    if done == 0 && (level, option) == (libc::SOL_SOCKET, libc::SO_PEERPIDFD) {
        let made: *mut c_int = value.cast();
        // SAFETY: the kernel has just written a descriptor there.
        unsafe { made.write_unaligned(arrived(made.read_unaligned())) };
    }
    done
}}

entry! { recvmsg, (fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: as the program has it.
    let done = unsafe { real::recvmsg(fd, message, flags) };
    if done >= 0 {
        // SAFETY: the kernel has just filled it.
        unsafe { each_passed(message, |fd| *fd = arrived(*fd)) };
    }
    done
}}

/// `each` descriptor that rides on `message`.
///
/// # Safety
/// Its control part is as the kernel wrote it, or as it is to be sent.
pub unsafe fn each_passed(message: *const msghdr, mut each: impl FnMut(&mut c_int)) {
    // SAFETY: as the caller has it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header within the control part.
    while let Some(found) = unsafe { header.as_ref() } {
        if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_RIGHTS {
            // SAFETY: only arithmetic.
            let (fds, len) = unsafe { (libc::CMSG_DATA(header).cast::<c_int>(), libc::CMSG_LEN(0) as usize) };
            for at in 0..found.cmsg_len.saturating_sub(len) / size_of::<c_int>() {
                // SAFETY: within the header's own length; nobody else has the message meanwhile.
                each(unsafe { &mut *fds.add(at) });
            }
        }
        // SAFETY: as the caller has it.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
}

// The parent waits until the child has become another program or has ended. Its memory is not lent: what the child would do
// to ours in it nobody could undo.
entry! { vfork = __vfork, () -> c_int {
    let flags = c_long::from(libc::CLONE_VFORK | libc::SIGCHLD);
    // SAFETY: a child with memory of its own goes on where its parent is.
    plain_child(|| unsafe { real::syscall(libc::SYS_clone, [flags, 0, 0, 0, 0, 0]) } as c_int)
}}

entry! { _Fork, () -> c_int {
    // SAFETY: nothing is passed.
    plain_child(|| unsafe { real::_Fork() })
}}

/// A child that is made by `call`, which prepares nothing.
fn plain_child(call: impl FnOnce() -> c_int) -> c_int {
    fork_handlers::before_copy();
    let child = call();
    if child == 0 {
        fork_handlers::become_plain();
    }
    child
}
