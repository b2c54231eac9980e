//! The functions of the C library that programs find here instead.
//!
//! Unsafe because any code can call these names, with the program's pointers.
#![allow(unsafe_code)]

mod descriptors;
mod file_size;
mod jumps;
pub mod mappings;
mod new_fds;
mod prepared_calls;
mod raw_syscall;
pub mod read_write;
mod seek_flush;
mod streams;
#[cfg(test)]
pub mod tests;
mod threads;
mod transfer;
pub mod user_change;
mod vectors;

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::{fd_table, own_fds, real};

/// A function that stands in for the C library's of the same name and of each `= name`.
macro_rules! entry {
    ($name:ident $(= $alias:ident)*, $arguments:tt -> $out:ty $body:block) => {
        entry!(@ $name $arguments -> $out $body);
        $(entry!(@ $alias of $name $arguments -> $out);)*
    };
    (@ $name:ident ($($argument:ident: $kind:ty),*) -> $out:ty $body:block) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $out $body
    };
    (@ $alias:ident of $name:ident ($($argument:ident: $kind:ty),*) -> $out:ty) => {
        #[cfg_attr(not(test), unsafe(no_mangle))]
        unsafe extern "C" fn $alias($($argument: $kind),*) -> $out {
            // SAFETY: the program's own arguments.
            unsafe { $name($($argument),*) }
        }
    };
}
use entry;

/// Drops the entry of `fd`, which the kernel has just returned: its previous file is gone, whichever thread closed it
/// (LD3).
fn arrived(fd: c_int) -> c_int {
    if fd >= 0 && own_fds::is_making() {
        return own_fds::adopt(fd);
    }
    drop(fd_table::take(fd));
    fd
}

/// Looks up every function of the C library that this library calls, while there is one thread. A child that was not
/// prepared, such as one of vfork, would wait for ever for the loader if another thread of its parent was loading a
/// library.
fn find_all() {
    static ARE_FOUND: AtomicBool = AtomicBool::new(false);
    if !ARE_FOUND.load(Ordering::Relaxed) {
        all().for_each(|next| _ = next.get());
        ARE_FOUND.store(true, Ordering::Relaxed);
    }
}

fn all() -> impl Iterator<Item = &'static real::NextFunction> {
    [real::next::ALL, prepared_calls::next::ALL, jumps::next::ALL].into_iter().flatten().copied()
}

/// Runs when the library is loaded, before the program does.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        crate::fork_handlers::begin();
    }
    begin
};
