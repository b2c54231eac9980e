//! Children: before one is made the offsets go to the kernel, where both processes find them (LD2); the child begins
//! without entries (LD6).
//!
//! Unsafe because handlers are given to the C library.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::mem::ManuallyDrop;

use crate::reentrancy::{self, ReentryGuard};
use crate::{call_tally, deferred_drop, fd_table, known_files, mapped_region, own_fds, real, size_limit, wipe_mark};

thread_local! {
    static FORKING: Cell<Option<ManuallyDrop<ReentryGuard>>> = const { Cell::new(None) };
}

/// Prepares the library when it is loaded.
pub fn begin() {
    // SAFETY: this library has not allocated before. The allocator's handlers are the innermost, so these may allocate.
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
    // A thread's first pin allocates memory of the C library, which ends the program if memory is short: this thread's
    // does so now.
    drop(ferrite_memory::pin());
    call_tally::begin();
    fd_table::make();
    mapped_region::begin();
}

extern "C" fn prepare() {
    let inside = reentrancy::enter();
    // Also in a handler, whatever it interrupted: nothing is waited for.
    surrender_offsets(|_| true);
    let Some(inside) = inside else { return };
    known_files::freeze();
    deferred_drop::freeze();
    mapped_region::freeze();
    FORKING.set(Some(ManuallyDrop::new(inside)));
}

extern "C" fn in_parent() {
    if let Some(inside) = FORKING.take() {
        mapped_region::thaw();
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
    mapped_region::forget_in_child();
    own_fds::close_all();
    fd_table::reset_in_child();
    drop(ManuallyDrop::into_inner(inside));
}

/// Turns direct calls off in a child that was made without preparation.
pub fn become_plain() {
    reentrancy::turn_off();
    own_fds::close_all();
}

/// Gives the offsets of the descriptors that `which` accepts to the kernel for good.
pub fn surrender_offsets(which: impl Fn(c_int) -> bool) {
    for (fd, description) in fd_table::all().filter(|(fd, _)| which(*fd)) {
        description.surrender(fd);
    }
}

/// Prepares for a new program, which inherits the descriptors without close-on-exec.
pub fn before_start() {
    let _inside = reentrancy::enter();
    surrender_offsets(is_inherited);
}

/// Prepares for a process that has all descriptors.
pub fn before_copy() {
    let _inside = reentrancy::enter();
    surrender_offsets(|_| true);
}

/// Turns direct calls off: from now on this process shares its memory without its descriptors, or the reverse.
pub fn before_split() {
    reentrancy::turn_off();
    for (fd, description) in fd_table::all() {
        description.surrender(fd);
        drop(description);
        drop(fd_table::take(fd));
    }
}

/// Prepares for becoming another program, which finds the offsets in the kernel; the exec may fail.
pub fn before_exec() {
    let inside = reentrancy::enter();
    fd_table::all().for_each(|(fd, description)| description.show(fd));
    // In a child without preparation another thread of its parent may hold the known files for good.
    if inside.is_some() && !wipe_mark::is_void() {
        known_files::end_all();
    }
}

fn is_inherited(fd: c_int) -> bool {
    // SAFETY: no pointer is passed.
    unsafe { real::fcntl(fd, libc::F_GETFD, 0) & libc::FD_CLOEXEC == 0 }
}
