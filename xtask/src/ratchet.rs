//! `xtask/ratchet.txt`: the known exceptions to the house rules, each with its reason; numbers there only shrink.
//!
//! ```text
//! unsafe    PACKAGE                   COUNT           how many `unsafe` the package has
//! module    PATH                      REASON          a file that may hold `unsafe`
//! file      PATH              LINES   REASON          a file longer than the limit
//! function  PATH::NAME        LINES   REASON          a function longer than the limit
//! name      PATH-PREFIX       WORD    REASON          a banned word that may be a name there
//! clock     PATH              REASON                  a file below `serve` that may read a clock or randomness
//! arch      PATH              REASON                  a file outside `medium` that may name machine instructions
//! ```

use crate::tidy::Finding;
use crate::tree::Tree;

/// Where it lies.
pub const PATH: &str = "xtask/ratchet.txt";

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// First word.
    pub kind: String,
    /// Second word.
    pub subject: String,
    /// Third word, if the kind has a number or a word there.
    pub value: String,
    /// Where.
    pub line: usize,
}

/// The file, parsed.
#[derive(Debug, Default)]
pub struct Ratchet {
    entries: Vec<Entry>,
}

/// Kinds, and whether a value and a reason belong to each.
const KINDS: [(&str, bool, bool); 7] = [
    ("unsafe", true, false),
    ("module", false, true),
    ("file", true, true),
    ("function", true, true),
    ("name", true, true),
    ("clock", false, true),
    ("arch", false, true),
];

impl Ratchet {
    /// Reads it from `tree`; lines that cannot be read become findings.
    pub fn of(tree: &Tree, findings: &mut Vec<Finding>) -> Self {
        let mut entries = Vec::new();
        for (at, line) in tree.text(PATH).unwrap_or_default().lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line, at + 1) {
                Ok(entry) => entries.push(entry),
                Err(what) => findings.push(Finding::new(PATH, at + 1, what)),
            }
        }
        Self { entries }
    }

    /// Whether a line `kind subject` stands there.
    pub fn allows(&self, kind: &str, subject: &str) -> bool {
        self.of_kind(kind).any(|entry| entry.subject == subject)
    }

    /// The number that `kind subject` is held to.
    pub fn number(&self, kind: &str, subject: &str) -> Option<(usize, usize)> {
        let entry = self.of_kind(kind).find(|entry| entry.subject == subject)?;
        Some((entry.value.parse().ok()?, entry.line))
    }

    /// The lines of one kind.
    pub fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.kind == kind)
    }
}

fn parse(line: &str, number: usize) -> Result<Entry, String> {
    let mut words = line.split_whitespace();
    let (kind, subject) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let Some((_, has_value, has_reason)) = KINDS.iter().find(|(known, ..)| *known == kind) else {
        return Err(format!("unknown kind `{kind}`: the head of xtask/src/ratchet.rs lists them"));
    };
    let value = if *has_value { words.next().unwrap_or_default() } else { "" };
    let counts = matches!(kind, "unsafe" | "file" | "function");
    if subject.is_empty() || (*has_value && value.is_empty()) || (counts && value.parse::<usize>().is_err()) {
        return Err(format!("incomplete `{kind}` line: the head of xtask/src/ratchet.rs shows its form"));
    }
    if *has_reason && words.next().is_none() {
        return Err(format!("`{kind} {subject}` gives no reason: end the line with one"));
    }
    Ok(Entry { kind: kind.into(), subject: subject.into(), value: value.into(), line: number })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_bad_ones_told() {
        let text = "# head\nunsafe medium 4\nmodule a.rs maps files\nmodule b.rs\nfile c.rs many why\nwish d.rs\n";
        let mut findings = Vec::new();
        let ratchet = Ratchet::of(&Tree::of(&[(PATH, text)]), &mut findings);
        assert_eq!(ratchet.number("unsafe", "medium"), Some((4, 2)));
        assert!(ratchet.allows("module", "a.rs"));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 5, 6], "no reason, no number, unknown kind");
    }
}
