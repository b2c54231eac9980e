//! The names of the C library that programs find here instead.
//!
//! Unsafe because they are called by whoever knows the name, with whatever pointers the program has.
#![allow(unsafe_code)]

mod arrivals;
mod before;
pub mod data;
mod descriptors;
mod jumps;
mod numbers;
mod position;
mod rights;
mod stat;
mod streams;
#[cfg(test)]
mod tests;
mod threads;
mod transfer;
mod vectors;

use std::ffi::c_int;

use crate::{ours, table};

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
    if fd >= 0 && ours::is_making() {
        return ours::adopt(fd);
    }
    drop(table::take(fd));
    fd
}

/// Runs when the library is loaded, before the program does.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        crate::forks::begin();
    }
    begin
};
