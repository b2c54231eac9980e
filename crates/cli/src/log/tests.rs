use super::*;

#[test]
fn a_log_is_its_users_alone_and_is_appended_to() {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().join("new/a.log");
    for line in ["one\n", "two\n"] {
        open(&at).expect("opened").write_all(line.as_bytes()).expect("written");
    }
    assert_eq!(fs::read_to_string(&at).expect("text"), "one\ntwo\n");
    assert_eq!(fs::metadata(&at).expect("there").permissions().mode() & 0o077, 0);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&at, &link).expect("linked");
    open(&link).expect_err("a link is not followed");
}
