//! Users: a program that begins as root may go on as somebody whom an owner would not let in. Then nothing of the pool is left to
//! it (LD9), before it does anything else.
//!
//! Unsafe because they are called by whoever knows the name, and for the question who this is.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

use libc::uid_t;

use super::entry;
use crate::{fd_table, known_files, own_fds, real, reentrancy};

const ROOT: uid_t = 0;

macro_rules! changes {
    ($(fn $name:ident($($argument:ident),*);)*) => {$(
        entry! { $name, ($($argument: uid_t),*) -> c_int {
            // SAFETY: no pointer is passed.
            changed_by(|| unsafe { real::$name($($argument),*) })
        }}
    )*};
}

changes! {
    fn setuid(uid);
    fn seteuid(uid);
    fn setreuid(real, effective);
    fn setresuid(real, effective, saved);
}

/// Whether the system call `number` does that too.
pub fn is_change(number: c_long) -> bool {
    matches!(number, libc::SYS_setuid | libc::SYS_setreuid | libc::SYS_setresuid)
}

/// `call` may change who this is. Who can be root again has given nothing up, and who stays who it was.
pub fn changed_by<T>(call: impl FnOnce() -> T) -> T {
    let before = users();
    let done = call();
    let after = users();
    if after != before && !after.contains(&ROOT) {
        give_up();
    }
    done
}

/// Takes all that there is of pools away.
pub(super) fn give_up() {
    if !fd_table::is_void() {
        // LD7, unless the mount lets nobody else ask.
        fd_table::all().filter(|(_, it)| it.file.is_leased()).for_each(|(fd, _)| known_files::query_size(fd));
        let _inside = reentrancy::enter();
        known_files::withdraw_all();
    } else if !reentrancy::is_split() {
        // A child for which nothing was prepared: it has copies of descriptors, which nobody else uses, and no more.
        own_fds::close_all();
    }
}

/// The real one, the effective one and the saved one.
fn users() -> [uid_t; 3] {
    let [mut real, mut effective, mut saved] = [ROOT; 3];
    // SAFETY: the kernel writes to live values.
    unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    [real, effective, saved]
}
