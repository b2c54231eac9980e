use std::fs;
use std::os::unix::fs::{chown, symlink};

use super::*;

#[test]
fn a_folder_is_its_users_alone_whoever_made_it() {
    let folder = tempfile::tempdir().expect("folder");
    let (path, link) = (folder.path().join("ferrite"), folder.path().join("link"));
    make_folder(&path).expect("made");
    let mode = || fs::metadata(&path).expect("there").mode() & 0o777;
    assert_eq!(mode(), 0o700);
    fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("its mode");
    make_folder(&path).expect("there");
    assert_eq!(mode(), 0o700);
    symlink(&path, &link).expect("link");
    make_folder(&link).expect_err("a link");
    open_folder(&link).expect_err("a link");
    if chown(&path, Some(65534), None).is_ok() {
        for said in [make_folder(&path).expect_err("theirs"), open_folder(&path).expect_err("theirs")] {
            assert!(said.to_string().contains("belongs to user 65534"), "{said}");
        }
    }
}
