use super::*;

#[test]
fn a_file_is_named_by_its_path_its_crate_or_its_name_alone() {
    let path = "crates/pool/src/check/lane.rs";
    assert!(["crates/pool/src/check/lane.rs", "pool/check/lane.rs", "lane.rs"].iter().all(|name| is_named(name, path)));
    assert!(["pool/lane.rs", "ane.rs", "block/check/lane.rs"].iter().all(|name| !is_named(name, path)));
}
