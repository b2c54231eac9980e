//! Walls within `fs`, between its modules: a folder and the paths that its product code may not name.

use std::sync::LazyLock;

use regex::Regex;

use super::{CheckedProject, RuleFinding};
use crate::source::pattern;

/// Folders, and the modules that each may not name below `crate` or `ferrite_fs`.
static WALLS: LazyLock<Vec<(&str, Regex)>> = LazyLock::new(|| {
    let wall = |folder, modules: &str| (folder, pattern(&format!(r"\b(?:crate|super|ferrite_fs)::(?:{modules})\b")));
    vec![
        wall("crates/fs/src/format", "view|store|file|tree|share|check"),
        wall("crates/fs/src/view", "store|file|tree|share|check"),
        wall("crates/fs/src/store", "file|tree|share|check"),
        wall("crates/fs/src/file", "share|check"),
        wall("crates/fs/src/tree", "share|check"),
        wall("crates/fs-client", "store|file|tree|check"),
    ]
});

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for (folder, named) in WALLS.iter() {
        for source in project.sources.iter().filter(|source| is_within(source.path, folder)) {
            let found = named.find_iter(&source.code).filter(|found| !source.is_test_at(found.start()));
            // The words shared with clients are a layout: `store` keeps them, and names nothing else of `share`.
            let found = found.filter(|found| {
                !(folder.ends_with("/store")
                    && found.as_str().ends_with("::share")
                    && source.code[found.end()..].starts_with("::layout"))
            });
            findings.extend(found.map(|found| {
                let what = format!(
                    "`{}` is named across a wall of `fs`: give what is needed as a trait or a value",
                    found.as_str()
                );
                RuleFinding::new(source.path, source.line_at(found.start()), what)
            }));
        }
    }
}

/// Returns true if the file at `path` lies in `folder`, or is the module of that name.
fn is_within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/') || rest == ".rs")
}

#[cfg(test)]
mod tests;
