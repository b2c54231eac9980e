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
mod tests;
