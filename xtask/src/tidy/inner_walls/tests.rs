use super::super::{assert_clean, assert_found};
use super::*;

#[test]
fn a_module_named_across_a_wall_is_found() {
    let refused = [
        ("crates/fs/src/file/size.rs", "\nuse crate::share::Sessions;"),
        ("crates/fs/src/tree.rs", "\nfn f() { super::share::f(); }"),
        ("crates/fs/src/view/hints.rs", "\nuse crate::file::Size;"),
        ("crates/fs/src/store/gate.rs", "\nuse crate::share::sessions::Sessions;"),
        ("crates/fs-client/src/lib.rs", "\nuse ferrite_fs::store::Chunk;"),
    ];
    for (path, text) in refused {
        assert_found(check, &[(path, text)], &format!("{path}:2"));
    }
}

#[test]
fn modules_below_and_tests_pass() {
    let good = [
        ("crates/fs/src/file_system.rs", "use crate::share::Sessions;"),
        ("crates/fs/src/share/sessions.rs", "use crate::file::Size; use crate::share::Sessions;"),
        ("crates/fs/src/file/size.rs", "use crate::format::Inode; #[cfg(test)] use crate::share::Sessions;"),
        ("crates/fs-client/src/lib.rs", "use ferrite_fs::share::layout::Word; use ferrite_fs::view::Inode;"),
    ];
    assert_clean(check, &good);
}
