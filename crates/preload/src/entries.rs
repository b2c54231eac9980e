//! The names of the C library that programs find here instead.
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code)]

mod descriptors;
mod file_size;
mod jumps;
mod new_fds;
mod prepared_calls;
mod raw_syscall;
pub mod read_write;
mod seek_flush;
mod streams;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod user_change;
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
            // SAFETY: as the program has it.
            unsafe { $name($($argument),*) }
        }
    };
}
use entry;

/// `fd` was just given out by the kernel: what stood under its number is gone, whoever closed it (LD3).
fn arrived(fd: c_int) -> c_int {
    if fd >= 0 && own_fds::is_making() {
        return own_fds::adopt(fd);
    }
    drop(fd_table::take(fd));
    fd
}

/// Looks every function of the C library up that is called from here, while there is one thread. A child for which that prepares
/// nothing, as it does for one of vfork, would wait for ever for the loader, where another thread of its parent was loading a
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
