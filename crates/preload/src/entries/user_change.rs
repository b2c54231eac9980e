//! Changes of the user: a program that begins as root may continue as a user whom an owner would refuse. Then it loses
//! all access to the pool (LD9), before it does anything else.
//!
//! Unsafe because any code can call these names, and because the user is queried.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_long};

use libc::uid_t;

use super::entry;
use crate::real::FailureValue;
use crate::{fd_table, known_files, mapped_region, own_fds, real, reentrancy, wipe_mark};

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

/// Returns true if the system call `number` changes the user too.
pub fn is_change(number: c_long) -> bool {
    matches!(number, libc::SYS_setuid | libc::SYS_setreuid | libc::SYS_setresuid)
}

/// Runs `call`, which may change the user. A program that can be root again has lost nothing, nor has one whose user
/// stays.
pub fn changed_by<T: FailureValue>(call: impl FnOnce() -> T) -> T {
    if mapped_region::is_mapped() {
        mapped_region::refuse(c"a change of the user", "unmap the region first");
        return T::FAILED;
    }
    let before = users();
    let done = call();
    let after = users();
    if after != before && !after.contains(&ROOT) {
        give_up();
    }
    done
}

/// Ends all access to pools.
pub(super) fn give_up() {
    if !wipe_mark::is_void() {
        // LD7, unless the mount refuses other users' queries.
        fd_table::all().filter(|(_, it)| it.file.is_leased()).for_each(|(fd, _)| known_files::query_size(fd));
        let _inside = reentrancy::enter();
        known_files::withdraw_all();
    } else if !reentrancy::is_split() {
        // A child without preparation: it has copies of descriptors, which no other process uses, and no more.
        own_fds::close_all();
    }
}

/// Returns the real, the effective and the saved user.
fn users() -> [uid_t; 3] {
    let [mut real, mut effective, mut saved] = [ROOT; 3];
    // SAFETY: the kernel writes to live values.
    unsafe { libc::getresuid(&raw mut real, &raw mut effective, &raw mut saved) };
    [real, effective, saved]
}
