use std::os::unix::fs::{PermissionsExt, chown};

use super::*;

const NOBODY: u32 = 65534;

fn judged(trust: &Trust, path: &Path) -> Result<(), String> {
    trust.ensure(path, &fs::File::open(path).expect("open").metadata().expect("metadata"))
}

/// O8.
#[test]
fn o8_a_file_that_others_may_write_to_is_used_only_if_they_are_trusted() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (none, all) = (Trust::default(), Trust::of(["0"; 0], true).expect("trust"));
    for (mode, is_safe) in [(0o600, true), (0o644, true), (0o660, false), (0o602, false), (0o666, false)] {
        fs::set_permissions(file.path(), fs::Permissions::from_mode(mode)).expect("its own");
        assert_eq!(judged(&none, file.path()).is_ok(), is_safe, "{mode:o}");
        judged(&all, file.path()).expect("trusted");
    }
    let said = judged(&none, file.path()).expect_err("others may write");
    assert!(said.contains("mode 666") && said.contains("--trust-writable"), "{said}");
}

/// O8.
#[test]
fn o8_a_file_of_another_user_is_used_only_if_that_user_is_trusted() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    if chown(file.path(), Some(NOBODY), None).is_err() {
        println!("skipped: only root gives files away");
        return;
    }
    let said = judged(&Trust::default(), file.path()).expect_err("another user's");
    assert!(said.contains("belongs to user nobody") && said.contains("--trust-owner nobody"), "{said}");
    for user in ["nobody", "65534"] {
        judged(&Trust::of([user], false).expect("known"), file.path()).expect("trusted");
    }
    judged(&Trust::of(["1"], true).expect("known"), file.path()).expect_err("another one is trusted");
    let why = Trust::of(["no-such-user"], false).expect_err("unknown");
    assert!(why.contains("id -u no-such-user"), "{why}");
}

#[test]
fn a_device_node_is_its_administrators() {
    judged(&Trust::default(), Path::new("/dev/null")).expect_err("all may write to it");
    judged(&Trust::of(["0"; 0], true).expect("trust"), Path::new("/dev/null")).expect("trusted");
}
