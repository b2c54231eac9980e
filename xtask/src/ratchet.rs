//! `xtask/ratchet.txt`: the known exceptions to the rules of the project. Its numbers only shrink.
//!
//! ```text
//! prose     PACKAGE         PERCENT   lines of comments with a construction that slows a reader down
//! shared    types           PERCENT   names of types that several files define
//! methods   FOLDER::TYPE    COUNT     methods of a type
//! cycle     FOLDER          COUNT     files that import each other in a circle
//! tuples    PACKAGE         COUNT     functions with a tuple as a parameter
//! page      PATH            LINES     a page longer than the limit
//! unsafe    END OF PATH     REASON    a file that may hold `unsafe` and does not say why itself
//! clock     END OF PATH     REASON    a file below the edge that may read a clock or randomness
//! arch      END OF PATH     REASON    a file outside `memory` that may name machine instructions
//! ```

use crate::tidy::RuleFinding;
use crate::tree::ProjectTree;

/// The path of the file.
pub const PATH: &str = "xtask/ratchet.txt";

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KnownException {
    /// The first word.
    kind: String,
    /// The second word.
    subject: String,
    /// The rest of the line: a number or a reason.
    value: String,
}

/// The known exceptions.
#[derive(Debug, Default)]
pub struct Ratchet {
    exceptions: Vec<KnownException>,
}

/// The kinds that end with a number.
const NUMBERS: [&str; 6] = ["prose", "shared", "methods", "cycle", "tuples", "page"];

/// The kinds that end with a reason.
const REASONS: [&str; 3] = ["unsafe", "clock", "arch"];

impl Ratchet {
    /// Reads the file of `tree`; lines that cannot be read become findings.
    pub fn of(tree: &ProjectTree, findings: &mut Vec<RuleFinding>) -> Self {
        let mut exceptions = Vec::new();
        for (at, line) in tree.text(PATH).unwrap_or_default().lines().enumerate() {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            match parse(line) {
                Ok(exception) => exceptions.push(exception),
                Err(what) => findings.push(RuleFinding::new(PATH, at + 1, what)),
            }
        }
        Self { exceptions }
    }

    /// Returns true if a line of `kind` names the end of `path`.
    pub fn allows(&self, kind: &str, path: &str) -> bool {
        self.exceptions.iter().any(|known| known.kind == kind && path.ends_with(&known.subject))
    }

    /// Returns the number that `kind` and `subject` are held to.
    pub fn number(&self, kind: &str, subject: &str) -> Option<f64> {
        let known = self.exceptions.iter().find(|known| known.kind == kind && known.subject == subject)?;
        known.value.parse().ok()
    }
}

fn parse(line: &str) -> Result<KnownException, String> {
    let mut words = line.split_whitespace();
    let (kind, subject) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let value = words.collect::<Vec<_>>().join(" ");
    let is_good = match kind {
        kind if NUMBERS.contains(&kind) => value.parse::<f64>().is_ok(),
        kind if REASONS.contains(&kind) => !value.is_empty(),
        _ => return Err(format!("unknown kind `{kind}`: the head of xtask/src/ratchet.rs lists the kinds")),
    };
    if subject.is_empty() || !is_good {
        return Err(format!("incomplete `{kind}` line: the head of xtask/src/ratchet.rs shows its form"));
    }
    Ok(KnownException { kind: kind.into(), subject: subject.into(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_and_bad_ones_are_found() {
        let text = "# head\ntuples memory 4\nclock a.rs the one clock\nclock b.rs\ntuples c many\nwish d.rs\n";
        let mut findings = Vec::new();
        let ratchet = Ratchet::of(&ProjectTree::of(&[(PATH, text)]), &mut findings);
        assert_eq!(ratchet.number("tuples", "memory"), Some(4.0));
        assert!(ratchet.allows("clock", "a.rs") && !ratchet.allows("arch", "a.rs"));
        let lines: Vec<usize> = findings.iter().map(|finding| finding.line).collect();
        assert_eq!(lines, [4, 5, 6], "no reason, no number, unknown kind");
    }
}
