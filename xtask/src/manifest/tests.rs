use super::*;

#[test]
fn dependencies_know_their_table_and_where_their_version_stands() {
    let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true # why\nb = { workspace = true }\nc = \"1\"\n\
                [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dev-dependencies]\ne.workspace = true\n\
                [workspace.dependencies]\nf = \"1\"\n[features]\nh = []\n";
    let found: Vec<_> =
        dependencies(text).into_iter().map(|found| (found.name, found.table, found.from_workspace)).collect();
    let expected = [
        ("a", DependencyTable::Normal, true),
        ("b", DependencyTable::Normal, true),
        ("c", DependencyTable::Normal, false),
        ("d", DependencyTable::Normal, false),
        ("e", DependencyTable::Dev, true),
        ("f", DependencyTable::Workspace, false),
    ];
    assert_eq!(found, expected.map(|(name, table, shared)| (name.to_owned(), table, shared)));
    assert_eq!(dependencies(text)[0].line, 4);
}
