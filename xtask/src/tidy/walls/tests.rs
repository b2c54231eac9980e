use super::super::{assert_clean, assert_found};
use super::*;

fn manifest(path: &str, rest: &str) -> (String, String) {
    (format!("{path}/Cargo.toml"), format!("[lints]\nworkspace = true\n{rest}"))
}

#[track_caller]
fn assert_refused(path: &str, rest: &str) {
    let (path_of, text) = manifest(path, rest);
    assert_found(check, &[(&path_of, &text)], &format!("{path}/Cargo.toml:4"));
}

#[track_caller]
fn assert_allowed(path: &str, rest: &str) {
    let (path, text) = manifest(path, rest);
    assert_clean(check, &[(&path, &text)]);
}

#[test]
fn a_manifest_that_crosses_a_wall_is_found() {
    assert_refused("crates/memory", "[dependencies]\nferrite-pool.workspace = true\n");
    assert_refused("crates/block", "[dependencies]\nferrite-fs = { path = \"../fs\" }\n");
    assert_refused("crates/pool", "[dependencies]\nferrite-crash.workspace = true\n");
    assert_refused("crates/pool", "[dev-dependencies]\nferrite-block.workspace = true\n");
    assert_refused("bindings/c", "[dependencies]\nferrite-daemon.workspace = true\n");
    assert_refused("crates/new", "[dependencies]\nferrite-memory.workspace = true\n");
    assert_refused("crates/pool", "[dependencies]\ntokio = \"1\"\n");
    assert_refused("crates/fs", "[dependencies]\nfuser.workspace = true\n");
    let hidden = manifest("crates/pool", "[dependencies.tokio]\nversion = \"1\"\n");
    assert_found(check, &[(&hidden.0, &hidden.1)], "crates/pool/Cargo.toml:1");
}

#[test]
fn a_manifest_within_the_walls_passes() {
    let rest = "[dependencies]\nferrite-memory.workspace = true\n[dev-dependencies]\nferrite-crash.workspace = true\n";
    for path in ["crates/pool", "crates/block", "crates/nbd", "bindings/c"] {
        assert_allowed(path, rest);
    }
    assert_allowed("crates/mount", "[dependencies]\nfuser.workspace = true\ntokio = \"1\"\n");
    assert_allowed("bindings/python", "[dependencies]\nferrite-object.workspace = true\nferrite-c.workspace = true\n");
}

#[test]
fn a_package_without_the_lints_of_the_workspace_is_found() {
    assert_found(check, &[("crates/pool/Cargo.toml", "[package]\n")], "crates/pool/Cargo.toml:1");
}

#[test]
fn the_rows_stand_on_rows_below_them() {
    for (at, row) in PACKAGES.iter().enumerate() {
        for name in row.stands_on {
            assert!(PACKAGES[at..].iter().any(|below| below.name == *name), "{} stands on {name}", row.name);
        }
    }
}

#[test]
fn a_drawing_that_differs_from_the_list_is_found() {
    let page = |drawing: &str| format!("# A\n{}{drawing}{}b\n", MARKERS[0], MARKERS[1]);
    assert_found(check, &[(PAGE, "# A\n")], "ARCHITECTURE.md:1");
    assert_found(check, &[(PAGE, &page("```\n```\n"))], "ARCHITECTURE.md:1");
    assert_clean(check, &[(PAGE, &with_map(&page("")).unwrap())]);
    assert!(drawing().lines().all(|line| line.len() <= 120), "{}", drawing());
}
