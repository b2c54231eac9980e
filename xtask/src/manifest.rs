//! What a Cargo.toml depends on, with lines.

/// One dependency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The key it has in the table.
    pub name: String,
    /// Where.
    pub line: usize,
    /// Which table.
    pub table: Table,
    /// Whether it says `workspace = true`.
    pub from_workspace: bool,
}

/// The tables dependencies stand in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// `[dependencies]`, also of one target.
    Normal,
    /// `[dev-dependencies]`.
    Dev,
    /// `[build-dependencies]`.
    Build,
    /// `[workspace.dependencies]`.
    Workspace,
}

/// The dependencies that the manifest `text` names.
pub fn dependencies(text: &str) -> Vec<Dependency> {
    let (mut header, mut found) = (String::new(), Vec::new());
    for (at, raw) in text.lines().enumerate() {
        let line = raw.split('#').next().unwrap_or_default().trim();
        let number = at + 1;
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            header = name.trim_matches(['[', ']']).to_owned();
            if let Some((table, Some(name))) = table_of(&header) {
                found.push(Dependency { name, line: number, table, from_workspace: false });
            }
            continue;
        }
        match table_of(&header) {
            Some((table, None)) => found.extend(entry(line, number, table)),
            Some((_, Some(_))) if shares(line) => {
                found.iter_mut().rev().take(1).for_each(|last| last.from_workspace = true)
            }
            _ => {}
        }
    }
    found
}

/// Whether every lint of the workspace holds for this package.
pub fn shares_lints(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).skip_while(|line| *line != "[lints]").skip(1);
    lines.find(|line| !line.is_empty()).is_some_and(shares)
}

fn shares(line: &str) -> bool {
    line.replace(' ', "").contains("workspace=true")
}

fn entry(line: &str, number: usize, table: Table) -> Option<Dependency> {
    let (key, _) = line.split_once('=')?;
    let name = key.trim().split('.').next()?.trim_matches('"').to_owned();
    (!name.is_empty()).then(|| Dependency { name, line: number, table, from_workspace: shares(line) })
}

/// Which table a header opens, and of which dependency where it is a table of one.
fn table_of(header: &str) -> Option<(Table, Option<String>)> {
    let (before, last) = header.rsplit_once('.').map_or(("", header), |(before, last)| (before, last));
    if let Some(table) = table_named(before, last) {
        return Some((table, None));
    }
    let (outer, inner) = before.rsplit_once('.').map_or(("", before), |(outer, inner)| (outer, inner));
    table_named(outer, inner).map(|table| (table, Some(last.trim_matches('"').to_owned())))
}

fn table_named(before: &str, last: &str) -> Option<Table> {
    match last {
        "dependencies" if before == "workspace" => Some(Table::Workspace),
        "dependencies" => Some(Table::Normal),
        "dev-dependencies" => Some(Table::Dev),
        "build-dependencies" => Some(Table::Build),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(String, Table, bool)> {
        dependencies(text).into_iter().map(|found| (found.name, found.table, found.from_workspace)).collect()
    }

    #[test]
    fn every_way_to_write_a_dependency_is_seen() {
        let text = "[package]\nname = \"x\"\n[dependencies]\na.workspace = true # why\nb = { workspace = true }\nc = \"1\"\n\
                    [target.'cfg(unix)'.dependencies]\nd = \"1\"\n[dev-dependencies.e]\nworkspace = true\n\
                    [workspace.dependencies]\nf = \"1\"\n[build-dependencies]\ng = \"1\"\n[features]\nh = []\n";
        let expected = [
            ("a", Table::Normal, true),
            ("b", Table::Normal, true),
            ("c", Table::Normal, false),
            ("d", Table::Normal, false),
            ("e", Table::Dev, true),
            ("f", Table::Workspace, false),
            ("g", Table::Build, false),
        ];
        assert_eq!(names(text), expected.map(|(name, table, shared)| (name.to_owned(), table, shared)));
        assert_eq!(dependencies(text)[0].line, 4);
    }

    #[test]
    fn shared_lints_are_seen() {
        assert!(shares_lints("[package]\n[lints]\nworkspace = true\n"));
        assert!(!shares_lints("[package]\n[dependencies]\na.workspace = true\n"));
    }
}
