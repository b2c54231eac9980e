use super::*;

#[test]
fn without_git_the_folders_are_walked_and_target_is_not() {
    let root = std::env::temp_dir().join(format!("ferrite-tree-{}", std::process::id()));
    for folder in ["target", "crates/a"] {
        std::fs::create_dir_all(root.join(folder)).unwrap();
    }
    for path in ["target/made.rs", "crates/a/lib.rs", "README.md"] {
        std::fs::write(root.join(path), "text").unwrap();
    }
    let mut paths = walk(&root).unwrap();
    paths.sort();
    std::fs::remove_dir_all(&root).unwrap();
    assert_eq!(paths, ["README.md", "crates/a/lib.rs"]);
}
