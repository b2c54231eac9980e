//! The rules of `cargo xtask tidy`, checked by reading. Every finding has a place, what is wrong, and what to do.
//!
//! Each rule is a module, whose tests plant violations that it must find and good text that it must pass.

mod dependencies;
mod edge;
pub mod freeze;
mod inner_walls;
mod invariants;
pub mod ledger;
mod named_files;
mod papers;
pub mod prose;
pub mod size;
pub mod structure;
mod text;
mod unsafety;
pub mod walls;

use std::fmt;

use crate::source::RustSource;
use crate::tree::ProjectTree;

/// Something that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleFinding {
    /// The path of the file.
    pub path: String,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong and what to do.
    pub what: String,
}

impl RuleFinding {
    /// Makes a finding at a line of a file.
    pub fn new(path: impl Into<String>, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.into(), line, what: what.into() }
    }
}

impl fmt::Display for RuleFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// The project, as every rule reads it.
pub struct CheckedProject<'a> {
    /// All text files of the project.
    pub tree: &'a ProjectTree,
    /// The Rust sources.
    pub sources: Vec<RustSource<'a>>,
}

impl<'a> CheckedProject<'a> {
    /// Reads the sources of `tree`.
    pub fn new(tree: &'a ProjectTree) -> Self {
        Self { tree, sources: RustSource::all(tree) }
    }
}

type RuleCheck = fn(&CheckedProject<'_>, &mut Vec<RuleFinding>);

const RULES: [RuleCheck; 14] = [
    walls::check,
    inner_walls::check,
    edge::check,
    text::check,
    unsafety::check,
    size::check,
    structure::check,
    prose::check,
    dependencies::check,
    papers::check,
    named_files::check,
    invariants::check,
    ledger::check,
    freeze::check,
];

/// Returns all that is wrong, by file and line.
pub fn check(project: &CheckedProject<'_>) -> Vec<RuleFinding> {
    let mut findings = Vec::new();
    for rule in RULES {
        rule(project, &mut findings);
    }
    findings.sort();
    findings.dedup();
    findings
}

/// Returns the package of the file at `path`, by its name in the list of packages.
pub fn package_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/');
    match (parts.next()?, parts.next()) {
        ("crates" | "examples", Some(name)) => Some(name),
        (top @ ("bench" | "xtask" | "tests" | "fuzz" | "bindings"), Some(_)) => Some(top),
        _ => None,
    }
}

/// Returns true if `package` lies below the edge: it knows no front end, reads no clock and draws no random numbers.
pub fn is_below_edge(package: &str) -> bool {
    const BELOW: [&str; 13] = [
        "memory",
        "disk",
        "pool",
        "owner",
        "object",
        "wal",
        "sqlite-log",
        "block",
        "fs",
        "fs-client",
        "sim",
        "cache",
        "guest",
    ];
    BELOW.contains(&package)
}

/// Returns the words of a name in lower case: `OptInfo`, `opt_info` and `opt-info` are two words each.
pub fn words(name: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| letters[at]);
        let after = letters.get(at + 1);
        let starts = letter.is_uppercase()
            && (before.is_some_and(|c| c.is_lowercase() || c.is_ascii_digit())
                || before.is_some_and(char::is_uppercase) && after.is_some_and(|c| c.is_lowercase()));
        if starts || !letter.is_alphanumeric() {
            words.push(std::mem::take(&mut word));
        }
        word.extend(letter.is_alphanumeric().then(|| letter.to_ascii_lowercase()));
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

/// Runs one rule on a tree made for a test.
#[cfg(test)]
fn found_by(rule: RuleCheck, files: &[(&str, &str)]) -> Vec<String> {
    let (tree, mut findings) = (ProjectTree::of(files), Vec::new());
    rule(&CheckedProject::new(&tree), &mut findings);
    findings.iter().map(ToString::to_string).collect()
}

/// Panics unless `rule` finds exactly one thing in `files`, at `place`.
#[cfg(test)]
#[track_caller]
fn assert_found(rule: RuleCheck, files: &[(&str, &str)], place: &str) {
    let found = found_by(rule, files);
    assert!(
        found.len() == 1 && found[0].starts_with(&format!("{place}: ")),
        "wanted one finding at {place}: {found:#?}"
    );
}

/// Panics if `rule` finds anything in `files`.
#[cfg(test)]
#[track_caller]
fn assert_clean(rule: RuleCheck, files: &[(&str, &str)]) {
    let found = found_by(rule, files);
    assert!(found.is_empty(), "good text was refused: {found:#?}");
}

#[cfg(test)]
mod tests;
