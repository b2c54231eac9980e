use super::*;

#[test]
fn a_folder_that_is_made_is_open_only_while_it_is_mounted_on() {
    let at = tempfile::tempdir().expect("a folder");
    let point = at.path().join("a/b");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    make(&point).expect("made");
    make(&point).expect("there already");
    assert_eq!(mode(&point), SHUT);
    assert_ne!(mode(point.parent().expect("one")), SHUT, "only the folder itself");
    let root = open_to_mount(&point, 0).expect("it is ours");
    assert_eq!(mode(&point), SHUT, "root needs no right");
    drop(root);
    let open = open_to_mount(&point, 1000).expect("it is ours");
    assert_eq!(mode(&point), OPEN);
    drop(open);
    assert_eq!(mode(&point), SHUT);
    fs::set_permissions(&point, Permissions::from_mode(0o755)).expect("ours");
    drop(open_to_mount(&point, 1000).expect("it is ours"));
    assert_eq!(mode(&point), 0o755, "the rights that its user chose stay");
    fs::write(at.path().join("file"), "").expect("written");
    let refused = make(&at.path().join("file")).expect_err("a file");
    assert!(refused.contains("is not a folder"), "{refused}");
}
