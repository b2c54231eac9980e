use super::*;

#[test]
fn names_split_into_words() {
    assert_eq!(words("NBDOptInfo"), ["nbd", "opt", "info"]);
    assert_eq!(words("fsync_all-data2"), ["fsync", "all", "data2"]);
    assert_eq!(words("SyncIO"), ["sync", "io"]);
    assert_eq!(words("MAX_LEN"), ["max", "len"]);
}

#[test]
fn files_belong_to_packages() {
    assert_eq!(package_of("crates/pool/src/lib.rs"), Some("pool"));
    assert_eq!(package_of("fuzz/targets/src/lib.rs"), Some("fuzz"));
    assert_eq!(package_of("examples/counters/src/lib.rs"), Some("counters"));
    assert_eq!(package_of("docs/format.md"), None);
    assert_eq!(package_of("Cargo.toml"), None);
}
