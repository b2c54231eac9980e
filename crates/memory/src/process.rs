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
mod tests {
    use std::fs::{Permissions, metadata, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_file_that_others_may_write_is_not_own() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        for (mode, is_ours) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false), (0o400, true)] {
            set_permissions(file.path(), Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(is_own(&metadata(file.path()).expect("there")), is_ours, "{mode:o}");
        }
        // Others may have all rights on a device: it cannot be shortened.
        assert!(is_own(&metadata("/dev/null").expect("there")));
    }
}
