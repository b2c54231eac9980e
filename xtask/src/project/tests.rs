use super::*;

#[test]
fn integration_tests_of_both_forms_are_found_and_separated() {
    let root = std::env::temp_dir().join(format!("ferrite-project-{}", std::process::id()));
    let files = [
        "crates/a/tests/model.rs",
        "crates/a/tests/attach/main.rs",
        "bindings/sqlite/tests/vfs/main.rs",
        "fuzz/targets/tests/replay.rs",
    ];
    for path in files.iter().chain(&["crates/b/tests/crash_tags.rs", "crates/b/tests/data/bytes"]).map(|f| root.join(f))
    {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    let (seeded, others) = Project { root: root.clone() }.integration_tests();
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(seeded, ["crash_tags", "replay"]);
    assert_eq!(others, ["attach", "model", "vfs"]);
}
