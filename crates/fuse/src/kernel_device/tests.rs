use super::*;

#[test]
fn a_device_that_is_missing_has_its_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = |path: &Path| LOOP.missing_at(path).expect("it is missing");
    assert!(said(&folder.path().join("none")).contains("`modprobe loop`"));
    for other in [Path::new("/dev/null"), folder.path()] {
        assert!(said(other).contains("/dev/loop-control is not the kernel's loop device"), "bound over it");
    }
}
