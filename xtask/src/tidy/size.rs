//! Files and functions short enough to be read at once; the known longer ones may only shrink.

use super::{Finding, House};

/// Lines of a file.
const FILE_LIMIT: usize = 400;

/// Lines of a function, from `fn` to its closing brace.
const FUNCTION_LIMIT: usize = 60;

pub(super) fn check(house: &House<'_>, findings: &mut Vec<Finding>) {
    let mut measures = Vec::new();
    for source in &house.sources {
        let lines = source.text.lines().count();
        measures.push(Measure {
            kind: "file",
            subject: source.path.into(),
            path: source.path,
            line: 1,
            lines,
            limit: FILE_LIMIT,
        });
        measures.extend(source.functions().into_iter().map(|function| Measure {
            kind: "function",
            subject: format!("{}::{}", source.path, function.name),
            path: source.path,
            line: function.line,
            lines: function.lines,
            limit: FUNCTION_LIMIT,
        }));
    }
    for measure in &measures {
        measure.check(house, findings);
    }
    no_stale_lines(house, &measures, findings);
}

/// The length of a file or a function.
struct Measure<'a> {
    kind: &'static str,
    subject: String,
    path: &'a str,
    line: usize,
    lines: usize,
    limit: usize,
}

impl Measure<'_> {
    fn check(&self, house: &House<'_>, findings: &mut Vec<Finding>) {
        let known = house.ratchet.number(self.kind, &self.subject).map(|(number, _)| number);
        if self.lines > known.unwrap_or(self.limit) {
            let what = format!(
                "{} `{}` has {} lines, {} are allowed: split it by what it does",
                self.kind,
                self.subject,
                self.lines,
                known.unwrap_or(self.limit)
            );
            findings.push(Finding::new(self.path, self.line, what));
        }
    }
}

/// A number that is higher than need be would let its subject grow again.
fn no_stale_lines(house: &House<'_>, measures: &[Measure<'_>], findings: &mut Vec<Finding>) {
    for kind in ["file", "function"] {
        for entry in house.ratchet.of_kind(kind) {
            let known = entry.value.parse().unwrap_or(0);
            let same = measures.iter().filter(|measure| measure.kind == kind && measure.subject == entry.subject);
            let what = match same.map(|measure| (measure.lines, measure.limit)).max() {
                Some((lines, limit)) if lines > limit && lines < known => format!("lower {known} to {lines}"),
                Some((lines, limit)) if lines > limit => continue,
                _ => "remove this line: what it allows is not there any more, or is short enough".into(),
            };
            findings.push(Finding::new(crate::ratchet::PATH, entry.line, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{assert_clean, assert_found};
    use super::*;

    fn function(lines: usize) -> String {
        format!("\nfn long() {{\n{}}}\n", "x();\n".repeat(lines - 2))
    }

    #[test]
    fn what_is_too_long_is_found() {
        assert_found(check, &[("a.rs", &"\n".repeat(401))], "a.rs:1");
        assert_found(check, &[("a.rs", &function(61))], "a.rs:2");
        let ratchet = ("xtask/ratchet.txt", "function a.rs::long 62 a table\n");
        assert_found(check, &[("a.rs", &function(63)), ratchet], "a.rs:2");
    }

    #[test]
    fn what_is_short_or_known_is_not() {
        assert_clean(check, &[("a.rs", &"\n".repeat(400)), ("b.rs", &function(60))]);
        let ratchet = ("xtask/ratchet.txt", "function a.rs::long 62 a table\n");
        assert_clean(check, &[("a.rs", &function(62)), ratchet]);
    }

    #[test]
    fn an_exception_that_is_too_wide_or_not_needed_is_found() {
        let ratchet = ("xtask/ratchet.txt", "\nfunction a.rs::long 62 a table\n");
        for lines in [61, 20] {
            assert_found(check, &[("a.rs", &function(lines)), ratchet], "xtask/ratchet.txt:2");
        }
        assert_found(check, &[ratchet], "xtask/ratchet.txt:2");
    }
}
