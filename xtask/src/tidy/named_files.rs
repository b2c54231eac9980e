//! The Rust files that ARCHITECTURE.md names exist. In its tables `pool/lane.rs` means `crates/pool/src/lane.rs`, and a name
//! alone means a file of that name anywhere.

use super::{CheckedProject, RuleFinding, walls::PAGE};

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let paths: Vec<&str> = project.tree.files.iter().map(|file| file.path.as_str()).collect();
    let page = project.tree.text(PAGE).unwrap_or_default();
    for (at, line) in page.lines().enumerate() {
        let named = line.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs") && !name.contains("NAME"));
        let missing = named.filter(|name| !paths.iter().any(|path| is_named(name, path)));
        findings.extend(
            missing.map(|name| RuleFinding::new(PAGE, at + 1, format!("there is no file {name}: name the right one"))),
        );
    }
}

fn is_named(name: &str, path: &str) -> bool {
    let ends_with = |end: &str| path.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'));
    let in_crate = name.split_once('/').map(|(package, rest)| format!("crates/{package}/src/{rest}"));
    ends_with(name) || in_crate.is_some_and(|full| path == full)
}

#[cfg(test)]
mod tests;
