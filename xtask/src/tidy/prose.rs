//! Sentences: the share of lines of comments and pages that have a construction which slows a reader down.
//!
//! The patterns are a net, not the goal: a line that passes may still be hard to read.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{CheckedProject, RuleFinding, package_of};
use crate::source::pattern;
use crate::tree::TextFile;

/// The highest share of lines with a construction, in percent.
const SHARE_MAX: f64 = 1.0;

/// The package under which the pages are counted.
const PAGES: &str = "docs";

/// The constructions, with a hint on what to write instead.
const CONSTRUCTIONS: [(&str, &str); 15] = [
    (
        "name the actor instead of who",
        concat!(
            r"(?:^|[.;:] )Who (?P<verb>\w+)|\b(?:to|of|by|for|from|than|but|and|where|that|tells|tell|says) who\b|",
            r"(?:^|[.;:,] )(?:who|whoever|whom) ",
            r"(?:has|is|had|was|asks|takes|holds|stores|reads|writes|opens|looks|comes|loses|waits|finds)"
        ),
    ),
    ("name the actor", r"\b[Ww]ho(?:m)?ever\b"),
    (
        "say earlier readers, the previous owner",
        r"\b(?:pins|owners?|readers|those|versions?|lines|client|clients) of before\b|\bof before\b",
    ),
    ("say except", r"\bbut for\b"),
    ("say while", r"\bmeanwhile\b"),
    ("say again", r"\banew\b"),
    ("say during", r"\bamid\b"),
    ("say what fails", r"\bin vain\b"),
    ("name the actor", r"\b(?:[Nn]obody|[Ss]omebody|[Aa]nybody)\b"),
    ("say reports, returns, prints", r"\b(?:is|are|was|were) told\b|\btells?\b"),
    (
        "say allows, or name the actor",
        r"\b[Ll]ets? (?:the |a |an |it |them |each |every |all |this |that |`\w+` |others |writes |whoever |nobody |somebody )",
    ),
    ("say must, or name the actor", r"\b(?:is|are|was|were) to (?:be|have|not|lie|keep|hold|say|come|go|make)\b"),
    ("use a verb of the field", r"\b(?:is|be|was|are|were|been) had\b|\b(?:comes? to|came of|comes? of|came to)\b"),
    ("repeat the noun", r"\b(?:that of|those of|one's)\b"),
    ("say that something is missing", r"\bthere (?:is|are|was|were) none\b|\bhas none\b|\bif there is one\b"),
];

static PATTERNS: LazyLock<Vec<(&str, Regex)>> =
    LazyLock::new(|| CONSTRUCTIONS.iter().map(|(hint, text)| (*hint, pattern(text))).collect());

/// All constructions at once.
static ANY: LazyLock<Regex> =
    LazyLock::new(|| pattern(&CONSTRUCTIONS.map(|(_, text)| format!("(?:{text})")).join("|")));

static COMMENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|\s)//[/!]?\s?(?P<text>.*)$"));

/// A line of a comment or a page with a construction.
#[derive(Debug)]
pub struct BadLine<'a> {
    /// The path of the file.
    pub path: &'a str,
    /// The line, from 1.
    pub line: usize,
    /// The text of the line.
    pub text: &'a str,
    /// What to write instead.
    pub hint: &'static str,
}

/// The lines of comments or pages of one package.
#[derive(Debug, Default)]
pub struct ProseCount<'a> {
    /// The number of lines that are not blank.
    pub lines: usize,
    /// Those with a construction.
    pub bad: Vec<BadLine<'a>>,
}

impl ProseCount<'_> {
    /// Returns the share of lines with a construction, in percent.
    pub fn share(&self) -> f64 {
        100.0 * self.bad.len() as f64 / self.lines.max(1) as f64
    }
}

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for (package, count) in count(&project.tree.files) {
        let Some(first) = count.bad.first().filter(|_| count.share() > SHARE_MAX + 0.005) else { continue };
        let what = format!(
            "{:.2} % of the lines of `{package}` have a construction that slows a reader down, {SHARE_MAX} % are allowed \
             (here: {}): `cargo xtask prose` lists all",
            count.share(),
            first.hint
        );
        findings.push(RuleFinding::new(first.path, first.line, what));
    }
}

/// Counts the lines of comments of each package, and the lines of the pages.
pub fn count(files: &[TextFile]) -> BTreeMap<&str, ProseCount<'_>> {
    let mut counts: BTreeMap<&str, ProseCount<'_>> = BTreeMap::new();
    for file in files {
        let Some(package) = package_for(&file.path) else { continue };
        let count = counts.entry(package).or_default();
        let mut is_code = false;
        for (at, line) in file.text.lines().enumerate() {
            let text = if package == PAGES {
                is_code ^= line.starts_with("```");
                (!is_code).then_some(line)
            } else {
                COMMENT.captures(line).and_then(|found| found.name("text")).map(|text| text.as_str())
            };
            let Some(text) = text.filter(|text| !text.trim().is_empty()) else { continue };
            count.lines += 1;
            count.bad.extend(fault(text).map(|hint| BadLine { path: &file.path, line: at + 1, text, hint }));
        }
    }
    counts
}

/// Returns the package whose lines the file at `path` counts to, if it has comments or is a page.
fn package_for(path: &str) -> Option<&str> {
    let is_page = matches!(path, "README.md" | "ARCHITECTURE.md") || path.starts_with("docs/") && path.ends_with(".md");
    if is_page {
        return Some(PAGES);
    }
    package_of(path).filter(|_| path.ends_with(".rs"))
}

/// Returns what to write instead if `text` has a construction.
fn fault(text: &str) -> Option<&'static str> {
    if !ANY.is_match(text) {
        return None;
    }
    // "Who is in" and "Who are they" name a question, so the first pattern passes over them.
    let counts = |found: Captures<'_>| {
        let rest = found.name("verb").map(|verb| &text[verb.start()..]);
        !rest.is_some_and(|rest| rest.starts_with("is ") || rest.starts_with("are "))
    };
    PATTERNS.iter().find(|(_, pattern)| pattern.captures_iter(text).any(counts)).map(|(hint, _)| *hint)
}

#[cfg(test)]
mod tests;
