//! Every dependency has its reason in docs/dependencies.md, and its version once, in the workspace's table.

use std::collections::{BTreeMap, BTreeSet};

use super::{CheckedProject, RuleFinding};
use crate::manifest::{self, DependencyTable};

const PAGE: &str = "docs/dependencies.md";

/// The manifest outside the workspace, which names its versions itself.
const FUZZ: &str = "fuzz/Cargo.toml";

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let (mut declared, mut used) = (BTreeMap::new(), BTreeSet::new());
    for file in project.tree.ending("Cargo.toml") {
        for dependency in manifest::dependencies(&file.text) {
            if dependency.name.starts_with("ferrite") {
                continue;
            }
            if dependency.table == DependencyTable::Workspace || file.path == FUZZ {
                declared.insert(dependency.name.clone(), (file.path.as_str(), dependency.line));
            } else if !dependency.from_workspace {
                let what = format!("`{0}` names its own version: write `{0}.workspace = true`", dependency.name);
                findings.push(RuleFinding::new(&file.path, dependency.line, what));
            }
            if dependency.table != DependencyTable::Workspace {
                used.insert(dependency.name);
            }
        }
    }
    let explained = explained(project);
    for (name, (path, line)) in &declared {
        if !explained.contains_key(name.as_str()) {
            let what = format!("`{name}` is not explained: add a line \"- `{name}`: why\" to {PAGE}");
            findings.push(RuleFinding::new(*path, *line, what));
        }
        if !used.contains(name) {
            findings.push(RuleFinding::new(*path, *line, format!("nothing uses `{name}`: remove it")));
        }
    }
    for (name, line) in explained {
        if !declared.contains_key(name) {
            findings.push(RuleFinding::new(PAGE, line, format!("`{name}` is no dependency: remove its line")));
        }
    }
}

/// Returns the dependencies that the page has a line "- `name`: why" for, with the number of the line.
fn explained<'a>(project: &'a CheckedProject<'_>) -> BTreeMap<&'a str, usize> {
    let lines = project.tree.text(PAGE).unwrap_or_default().lines().enumerate();
    let named = |(at, line): (usize, &'a str)| {
        let (name, why) = line.strip_prefix("- `")?.split_once('`')?;
        (!why.trim_start_matches([':', ' ']).is_empty()).then_some((name, at + 1))
    };
    lines.filter_map(named).collect()
}

#[cfg(test)]
mod tests;
