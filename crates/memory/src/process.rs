//! Facts about this process that a library has to ask the kernel for.
//!
//! Unsafe because the standard library offers neither call.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;

/// Returns the process's effective user.
pub fn effective_user() -> u32 {
    // SAFETY: asks for a number.
    unsafe { libc::geteuid() }
}

/// Returns true if the program has rights that its caller lacks: it is set-user-id or set-group-id, or has file
/// capabilities.
fn has_more_rights_than_its_caller() -> bool {
    // SAFETY: asks for a number.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Returns the environment variable `name`, or `None` if this program has rights that its caller lacks: the caller has
/// set it.
pub fn variable(name: &str) -> Option<OsString> {
    if has_more_rights_than_its_caller() { None } else { std::env::var_os(name) }
}

/// Returns true if root or this process's user owns `file`, and its mode allows no other user to write to it. The mode
/// of a device does not count: a device cannot be shortened.
pub fn is_own(file: &std::fs::Metadata) -> bool {
    let is_written_by_others = file.is_file() && file.mode() & 0o022 != 0;
    [0, effective_user()].contains(&file.uid()) && !is_written_by_others
}

#[cfg(test)]
mod tests;
