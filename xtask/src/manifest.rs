//! The dependencies that a Cargo.toml names.

/// A dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The key in its table.
    pub name: String,
    /// The line, from 1.
    pub line: usize,
    /// The table that it stands in.
    pub table: DependencyTable,
    /// True if the line says `workspace = true`.
    pub from_workspace: bool,
}

/// The tables that list dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DependencyTable {
    /// `[dependencies]` or `[build-dependencies]`.
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[workspace.dependencies]`.
    Workspace,
}

/// Returns the dependencies of the manifest `text`, each of which stands in one line below the header of its table.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let (mut table, mut found) = (None, Vec::new());
    for (at, line) in text.lines().enumerate() {
        if line.starts_with('[') {
            table = match line.trim() {
                "[workspace.dependencies]" => Some(DependencyTable::Workspace),
                "[dev-dependencies]" => Some(DependencyTable::Dev),
                header if header.ends_with("dependencies]") => Some(DependencyTable::Normal),
                _ => None,
            };
        } else if let (Some(table), Some((key, value))) = (table, line.split_once('=')) {
            let name = key.trim().trim_end_matches(".workspace").to_owned();
            let from_workspace = key.trim().ends_with(".workspace") || value.contains("workspace = true");
            found.push(Dependency { name, line: at + 1, table, from_workspace });
        }
    }
    found
}

#[cfg(test)]
mod tests {
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
}
