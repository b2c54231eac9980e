//! `unsafe`: in the modules that say why, and never more of it than the ratchet knows.

use std::collections::BTreeMap;

use super::{Finding, House, package_of};
use crate::ratchet::PATH;

pub(super) fn check(house: &House<'_>, findings: &mut Vec<Finding>) {
    let mut counts = BTreeMap::new();
    for source in &house.sources {
        let mut found = source.tokens.iter().filter(|token| token.is_ident("unsafe")).peekable();
        let Some(first) = found.peek() else { continue };
        if !house.ratchet.allows("module", source.path) {
            let what = format!(
                "`unsafe` in a file that may not hold it: do without, or add `module {} REASON` to {PATH}",
                source.path
            );
            findings.push(Finding::new(source.path, first.line, what));
        }
        *counts.entry(package_of(source.path).unwrap_or("elsewhere")).or_insert(0) += found.count();
    }
    for (package, count) in &counts {
        let (known, line) = house.ratchet.number("unsafe", package).unwrap_or((0, 1));
        let what = match count.cmp(&known) {
            std::cmp::Ordering::Equal => continue,
            std::cmp::Ordering::Less => format!("`{package}` has {count} `unsafe` left: lower {known} to {count}"),
            std::cmp::Ordering::Greater => format!(
                "`{package}` has {count} `unsafe`, {known} are allowed: do without, or raise it in a change that says why \
                 (`unsafe {package} {count}`)"
            ),
        };
        findings.push(Finding::new(PATH, line, what));
    }
    no_stale_lines(house, &counts, findings);
}

fn no_stale_lines(house: &House<'_>, counts: &BTreeMap<&str, usize>, findings: &mut Vec<Finding>) {
    let has_unsafe = |path: &str| {
        let source = house.sources.iter().find(|source| source.path == path);
        source.is_some_and(|source| source.tokens.iter().any(|token| token.is_ident("unsafe")))
    };
    let modules = house.ratchet.of_kind("module").filter(|entry| !has_unsafe(&entry.subject));
    let packages = house.ratchet.of_kind("unsafe").filter(|entry| !counts.contains_key(entry.subject.as_str()));
    for entry in modules.chain(packages) {
        let what = format!("remove this line: `{}` holds no `unsafe`", entry.subject);
        findings.push(Finding::new(PATH, entry.line, what));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_clean, assert_found, found_by};
    use super::*;

    const PATHS: [&str; 2] = ["crates/medium/src/map.rs", "crates/medium/src/page.rs"];
    const ALLOWED: &str = "unsafe medium 2\nmodule crates/medium/src/map.rs maps files\n";

    #[test]
    fn more_of_it_less_of_it_and_in_a_new_place_are_found() {
        for more in ["unsafe {} unsafe {} unsafe {}", "unsafe {}"] {
            assert_found(check, &[(PATHS[0], more), (PATH, ALLOWED)], "xtask/ratchet.txt:1");
        }
        assert_found(
            check,
            &[(PATHS[0], "unsafe {}"), (PATHS[1], "\nunsafe {}"), (PATH, ALLOWED)],
            "crates/medium/src/page.rs:2",
        );
    }

    #[test]
    fn lines_that_allow_nothing_are_found() {
        assert_eq!(found_by(check, &[(PATHS[0], "fn f() {}"), (PATH, ALLOWED)]).len(), 2);
    }

    #[test]
    fn what_the_ratchet_knows_and_words_in_comments_pass() {
        assert_clean(check, &[(PATHS[0], "// unsafe\nunsafe {} unsafe fn f() { \"unsafe\" }"), (PATH, ALLOWED)]);
    }
}
