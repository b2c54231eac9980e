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
