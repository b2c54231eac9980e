use super::super::{assert_clean, assert_found};
use super::*;

const ROOT: (&str, &str) = ("Cargo.toml", "[workspace.dependencies]\nlibc = \"0.2\"\n");
const USER: (&str, &str) = ("crates/a/Cargo.toml", "[dependencies]\nlibc.workspace = true\n");
const WHY: (&str, &str) = (PAGE, "- `libc`: system calls.\n");

#[test]
fn a_dependency_without_a_reason_is_found() {
    assert_found(check, &[ROOT, USER], "Cargo.toml:2");
    assert_found(check, &[ROOT, USER, (PAGE, "- `libc`:\n")], "Cargo.toml:2");
}

#[test]
fn a_reason_without_a_dependency_and_a_dependency_without_a_user_are_found() {
    assert_found(check, &[ROOT, USER, (PAGE, "- `libc`: system calls.\n- `rand`: gone.\n")], "docs/dependencies.md:2");
    assert_found(check, &[ROOT, WHY], "Cargo.toml:2");
}

#[test]
fn a_version_outside_the_table_is_found() {
    let own = ("crates/b/Cargo.toml", "[dependencies]\nlibc = \"0.1\"\n");
    assert_found(check, &[ROOT, USER, WHY, own], "crates/b/Cargo.toml:2");
}

#[test]
fn explained_and_used_passes() {
    assert_clean(check, &[ROOT, USER, WHY]);
}
