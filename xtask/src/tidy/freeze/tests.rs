use super::super::{assert_clean, assert_found};
use super::*;

const PAGE: (&str, &str) = (JSON_PAGE, "## Pool\n\n| key | what |\n|---|---|\n| `uuid` | x |\n| `path?` | y |\n");

#[test]
fn a_key_that_went_is_found_and_a_new_one_passes() {
    assert_eq!(json_keys(PAGE.1), "Pool: uuid\nPool: path?\n");
    assert_clean(check, &[PAGE, (JSON, "Pool: uuid\n")]);
    assert_found(check, &[PAGE, (JSON, "Pool: uuid\nPool: path\n")], "docs/json.md:1");
    assert_found(check, &[PAGE, (JSON, "Disk: uuid\n")], "docs/json.md:1");
}

#[test]
fn checksums_differ_by_one_bit() {
    assert_eq!(checksum(b""), 0xcbf2_9ce4_8422_2325);
    assert_eq!(checksum(b"a"), 0xaf63_dc4c_8601_ec8c);
    assert_ne!(checksum(b"ab"), checksum(b"aa"));
}

#[test]
fn symbols_of_a_file_that_is_no_library_are_refused() {
    assert!(symbols(Path::new("Cargo.toml")).is_err());
}
