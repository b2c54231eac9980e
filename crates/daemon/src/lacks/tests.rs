use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn each_thing_that_is_missing_has_its_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let said = |told: Option<String>| told.expect("something is missing");
    assert!(said(fusermount(None, "")).contains("`apt-get install fuse3`"));
    fs::write(at("helper"), "").expect("written");
    let mode = |mode| fs::set_permissions(at("helper"), fs::Permissions::from_mode(mode)).expect("set");
    mode(0o755);
    assert!(said(fusermount(Some(&at("helper")), "")).contains("`chmod u+s "));
    mode(0o4755);
    assert_eq!(fusermount(Some(&at("helper")), "NoNewPrivs:\t0\n"), None);
    assert!(said(fusermount(Some(&at("helper")), "NoNewPrivs:\t1\n")).contains("no_new_privs"));
    assert!(!ferrite_fuse::has_administrator("CapEff:\t00000000a80425fb\n"), "as Docker has it");
    assert!(ferrite_fuse::has_administrator("CapEff:\t000001ffffffffff\n"));
}
