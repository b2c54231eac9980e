//! Invariants are numbered under letters that belong to one module, and a table of ARCHITECTURE.md lists the letters. So a
//! test that cites a number cites one statement.

use std::collections::BTreeMap;

use super::{CheckedProject, RuleFinding};

const PAGE: &str = "ARCHITECTURE.md";

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let page = project.tree.text(PAGE).unwrap_or_default();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for source in &project.sources {
        for (at, line) in source.text.lines().enumerate() {
            let Some((_, letters)) = stated(line) else { continue };
            let owner = owners.entry(letters).or_insert(source.path);
            if *owner != source.path {
                let what =
                    format!("{letters} are the letters of {owner}: choose others, so that a test cites one thing");
                findings.push(RuleFinding::new(source.path, at + 1, what));
            } else if line.contains(&format!("- {letters}1.")) && !is_mapped(page, letters) {
                let what = format!("the table of invariants in {PAGE} has no {letters}: add its row");
                findings.push(RuleFinding::new(source.path, at + 1, what));
            }
        }
    }
}

/// Returns the name of the invariant that a line states, such as `//! - AB3. What it is.`, and the letters of the name.
pub fn stated(line: &str) -> Option<(&str, &str)> {
    let name = line.strip_prefix("//! - ")?.split_once(". ")?.0;
    let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_name = !letters.is_empty() && letters != name && letters.chars().all(|c| c.is_ascii_uppercase());
    is_name.then_some((name, letters))
}

/// Returns true if the first cell of a table's row on `page` lists `letters`.
fn is_mapped(page: &str, letters: &str) -> bool {
    let first = |line: &str| line.strip_prefix("| ").and_then(|row| row.split('|').next()).map(str::to_owned);
    page.lines().filter_map(first).any(|cell| cell.split(',').any(|name| name.trim() == letters))
}

#[cfg(test)]
mod tests;
