//! Children: before one is made the offsets go to the kernel, where both find them (LD2); the child then begins with
//! nothing (LD6).
//!
//! Unsafe because handlers are given to the C library.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::ManuallyDrop;

use crate::reentrancy::{self, ReentryGuard};
use crate::{call_tally, deferred_drop, fd_table, known_files, own_fds, real, size_limit};

thread_local! {
    static FORKING: Cell<Option<ManuallyDrop<ReentryGuard>>> = const { Cell::new(None) };
}

/// What is done when the library is loaded.
pub fn begin() {
    // SAFETY: nothing was allocated by us before. Its handlers are the innermost, so ours may allocate.
    #[cfg(not(test))]
    unsafe {
        dlmalloc::enable_alloc_after_fork();
    }
    // SAFETY: three functions that live as long as the process: the library is never unloaded.
    let are_set = unsafe { libc::pthread_atfork(Some(prepare), Some(in_parent), Some(in_child)) } == 0;
    if !are_set {
        return reentrancy::turn_off();
    }
    size_limit::learn();
    // A thread's first pin takes memory of the C library's, which ends the program where there is none: this one's is now.
    drop(ferrite_memory::pin());
    call_tally::begin();
    fd_table::make();
}

extern "C" fn prepare() {
    let inside = reentrancy::enter();
    // By a handler too, whatever it interrupted: nothing is waited for.
    surrender_offsets(|_| true);
    let Some(inside) = inside else { return };
    known_files::freeze();
    deferred_drop::freeze();
    FORKING.set(Some(ManuallyDrop::new(inside)));
}

extern "C" fn in_parent() {
    if let Some(inside) = FORKING.take() {
        deferred_drop::thaw();
        known_files::thaw();
        drop(ManuallyDrop::into_inner(inside));
    }
}

extern "C" fn in_child() {
    let Some(inside) = FORKING.take() else { return become_plain() };
    ferrite_memory::forget_other_threads();
    deferred_drop::forget_in_child();
    known_files::forget_in_child();
    own_fds::close_all();
    fd_table::reset_in_child();
    drop(ManuallyDrop::into_inner(inside));
}

/// A child that was made where nothing could be prepared does nothing directly.
pub fn become_plain() {
    reentrancy::turn_off();
    own_fds::close_all();
}

/// The offsets of the descriptors that `which` names go to the kernel for good.
pub fn surrender_offsets(which: impl Fn(c_int) -> bool) {
    for (fd, description) in fd_table::all().filter(|(fd, _)| which(*fd)) {
        description.surrender(fd);
    }
}

/// A program is about to be started with the descriptors that are not closed by that.
pub fn before_start() {
    let _inside = reentrancy::enter();
    surrender_offsets(is_inherited);
}

/// Somebody is about to be made who has all descriptors.
pub fn before_copy() {
    let _inside = reentrancy::enter();
    surrender_offsets(|_| true);
}

/// This process shares its memory and not its descriptors from now on: nothing is done directly any more.
pub fn before_split() {
    reentrancy::turn_off();
    for (fd, description) in fd_table::all() {
        description.surrender(fd);
        drop(description);
        drop(fd_table::take(fd));
    }
}

/// This process is about to become another program, which finds the offsets in the kernel; it may stay what it is.
pub fn before_exec() {
    let inside = reentrancy::enter();
    fd_table::all().for_each(|(fd, description)| description.show(fd));
    // In a child for which nothing was prepared another thread of its parent's may have what is known, for good.
    if inside.is_some() && !fd_table::is_void() {
        known_files::end_all();
    }
}

fn is_inherited(fd: c_int) -> bool {
    // SAFETY: no pointer is passed.
    unsafe { real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC == 0 }
}
