use std::os::unix::fs::PermissionsExt;

use super::*;

#[test]
fn a_mode_that_forbids_its_own_user_is_told() {
    let pool = tempfile::NamedTempFile::new().expect("a file");
    let said = |mode| {
        fs::set_permissions(pool.path(), fs::Permissions::from_mode(mode)).expect("its own");
        let error = Error::Io { what: "opening it".into(), source: ErrorKind::PermissionDenied.into() };
        refused(pool.path(), error).text().to_owned()
    };
    for (mode, shown) in [(0o444, "444"), (0o200, "200"), (0o077, "077")] {
        let said = said(mode);
        assert!(said.contains(shown) && said.contains("`chmod u+rw"), "{said}");
    }
    // The mode allows the access, so the reason is another one, such as a folder.
    assert!(said(0o600).contains("not yours"));
}
