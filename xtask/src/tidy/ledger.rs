//! The ledger: names of tests, invariants and explorations that may not vanish without a reason.
//!
//! ```text
//! testdata/ledger/tests.txt         NAME COUNT                     functions of this name that are tests
//! testdata/ledger/invariants.txt    NAME [cited]                   stated by a module; cited by a test
//! testdata/ledger/explorations.txt  TEST RUNS POINTS IMAGES FOUND  what the crash explorations of a test tried
//! testdata/ledger/gone/AREA.txt     KIND NAME -> NEW NAME          a name that was replaced by another
//!                                   KIND NAME: REASON              a name that went, or a count that fell
//! ```
//!
//! KIND is `test`, `invariant` or `exploration`. `cargo xtask ledger` writes the first three once nothing is missing.

use std::collections::BTreeMap;

use super::invariants::stated;
use super::{CheckedProject, RuleFinding};
use crate::source::RustSource;
use crate::tree::ProjectTree;

/// The folder of the reasons, one file an area.
const GONE: &str = "testdata/ledger/gone/";

/// A kind of names, with the file that keeps them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    /// Test functions, in Rust and in Python.
    Test,
    /// Numbered invariants.
    Invariant,
    /// Crash explorations, by the test that runs them.
    Exploration,
}

impl NameKind {
    /// The word that stands for this kind in a line of a reason.
    pub fn word(self) -> &'static str {
        match self {
            Self::Test => "test",
            Self::Invariant => "invariant",
            Self::Exploration => "exploration",
        }
    }

    /// The path of the file that keeps the names of this kind.
    pub fn path(self) -> String {
        format!("testdata/ledger/{}s.txt", self.word())
    }
}

/// NameCounts of one kind, each with its counts.
pub type NameCounts = BTreeMap<String, Vec<u64>>;

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let reasons = Reasons::of(project.tree, findings);
    let names =
        [(NameKind::Test, tests(project.tree, &project.sources)), (NameKind::Invariant, invariants(&project.sources))];
    for (kind, now) in names {
        let kept = names_of(project.tree.text(&kind.path()).unwrap_or_default());
        let lost = missing(kind, &kept, &now, &reasons);
        findings.extend(lost.into_iter().map(|what| RuleFinding::new(kind.path(), 1, what)));
    }
}

/// Returns `names` as lines of a file of the ledger.
pub fn text_of(kind: NameKind, names: &NameCounts) -> String {
    let line = |(name, counts): (&String, &Vec<u64>)| match (kind, counts.as_slice()) {
        (NameKind::Invariant, [0]) => format!("{name}\n"),
        (NameKind::Invariant, _) => format!("{name} cited\n"),
        _ => format!("{name} {}\n", counts.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")),
    };
    names.iter().map(line).collect()
}

/// Reads the lines of a file of the ledger.
pub fn names_of(text: &str) -> NameCounts {
    let name = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.to_owned();
        let counts: Vec<u64> = words.map(|word| word.parse().unwrap_or(1)).collect();
        Some((name, if counts.is_empty() { vec![0] } else { counts }))
    };
    text.lines().filter_map(name).collect()
}

/// Returns the names of all tests of the project, each with the number of tests of that name.
pub fn tests(tree: &ProjectTree, sources: &[RustSource<'_>]) -> NameCounts {
    let mut names = NameCounts::new();
    let mut count = |name: &str| names.entry(name.to_owned()).or_insert_with(|| vec![0])[0] += 1;
    for source in sources {
        source.functions.iter().filter(|function| function.is_test).for_each(|test| count(&test.name));
    }
    for file in tree.ending(".py") {
        let tests = file.text.lines().filter_map(|line| line.trim_start().strip_prefix("def test_"));
        tests.filter_map(|rest| rest.split('(').next()).for_each(|rest| count(&format!("test_{rest}")));
    }
    names
}

/// Returns the numbered invariants that modules state, each with 1 if a test cites it and with 0 if none does.
pub fn invariants(sources: &[RustSource<'_>]) -> NameCounts {
    let stated = |line: &str| stated(line).map(|(name, _)| (name.to_owned(), vec![0]));
    let mut names: NameCounts = sources.iter().flat_map(|source| source.text.lines().filter_map(stated)).collect();
    for source in sources {
        let tests = source.functions.iter().filter(|function| function.is_test);
        let named: Vec<String> = tests.map(|test| test.name.to_uppercase()).collect();
        let texts = named.iter().map(String::as_str).chain(source.test_text());
        for word in texts.flat_map(|text| text.split(|c: char| !c.is_ascii_alphanumeric())) {
            if let Some(counts) = names.get_mut(word) {
                counts[0] = 1;
            }
        }
    }
    names
}

/// Sums the lines that explorations appended to the file of FERRITE_EXPLORATIONS, by the name of the test.
pub fn explorations(lines: &str) -> NameCounts {
    let mut names = NameCounts::new();
    for line in lines.lines() {
        let mut words = line.split_whitespace();
        let test = words.next().and_then(|path| path.rsplit("::").next()).unwrap_or_default();
        let counts = names.entry(test.to_owned()).or_insert_with(|| vec![0; 4]);
        counts[0] += 1;
        for (sum, word) in counts[1..].iter_mut().zip(words) {
            *sum += word.parse::<u64>().unwrap_or(0);
        }
    }
    names
}

/// The reasons for names that went and counts that fell.
#[derive(Debug, Default)]
pub struct Reasons {
    /// The successor of each replaced name, by kind and name.
    replaced: BTreeMap<(String, String), String>,
    /// How many names went for a reason, by kind and name.
    excused: BTreeMap<(String, String), u64>,
}

impl Reasons {
    /// Reads the files of reasons; lines that cannot be read become findings.
    pub fn of(tree: &ProjectTree, findings: &mut Vec<RuleFinding>) -> Self {
        let mut reasons = Self::default();
        for file in tree.files.iter().filter(|file| file.path.starts_with(GONE)) {
            for (at, line) in file.text.lines().enumerate() {
                let is_read = line.trim().is_empty() || line.starts_with('#') || reasons.read(line).is_some();
                if !is_read {
                    let what = "not understood: write `KIND NAME -> NEW NAME` or `KIND NAME: REASON`";
                    findings.push(RuleFinding::new(&file.path, at + 1, what));
                }
            }
        }
        reasons
    }

    fn read(&mut self, line: &str) -> Option<()> {
        let (kind, rest) = line.split_once(' ')?;
        [NameKind::Test, NameKind::Invariant, NameKind::Exploration].iter().find(|known| known.word() == kind)?;
        if let Some((old, new)) = rest.split_once(" -> ") {
            self.replaced.insert((kind.into(), old.trim().into()), new.trim().into());
            return Some(());
        }
        let (name, reason) = rest.split_once(": ")?;
        *self.excused.entry((kind.into(), name.trim().into())).or_insert(0) += 1;
        (!reason.trim().is_empty()).then_some(())
    }

    /// Returns the name that stands for `name` now, through every replacement.
    fn successor<'a>(&'a self, kind: NameKind, name: &'a str) -> &'a str {
        let mut name = name;
        for _ in 0..=self.replaced.len() {
            match self.replaced.get(&(kind.word().into(), name.into())) {
                Some(next) => name = next,
                None => break,
            }
        }
        name
    }

    fn excused(&self, kind: NameKind, name: &str) -> u64 {
        self.excused.get(&(kind.word().into(), name.into())).copied().unwrap_or(0)
    }
}

/// Returns a sentence for each name of `kept` that is missing in `now`, and for each count that fell, without a reason.
pub fn missing(kind: NameKind, kept: &NameCounts, now: &NameCounts, reasons: &Reasons) -> Vec<String> {
    let (mut wanted, mut lost) = (NameCounts::new(), Vec::new());
    for (name, counts) in kept {
        // A test that was renamed keeps what its explorations have to try.
        let named = if kind == NameKind::Exploration { NameKind::Test } else { kind };
        let successor = reasons.successor(named, name);
        if name.starts_with("canary") && !successor.starts_with("canary") {
            lost.push(format!("`{successor}` replaces `{name}`: the name of a canary begins with `canary`"));
        }
        let sums = wanted.entry(successor.to_owned()).or_insert_with(|| vec![0; counts.len()]);
        let excused = if kind == NameKind::Test { reasons.excused(kind, name) } else { 0 };
        for (sum, count) in sums.iter_mut().zip(counts) {
            // One test may take the place of several, but has to explore what all of them explored.
            *sum = if kind == NameKind::Exploration { *sum + count } else { (*sum).max(count.saturating_sub(excused)) };
        }
    }
    for (name, counts) in &wanted {
        let found = now.get(name).map(Vec::as_slice).unwrap_or_default();
        let is_excused = kind != NameKind::Test && reasons.excused(kind, name) > 0;
        let is_less = counts.iter().enumerate().any(|(at, count)| {
            let is_verdict = kind != NameKind::Exploration || at == 3;
            // Pools have random identities, so a twentieth of what is tried may differ from run to run. Where a planted
            // bug is met moves with the code: only that it is found counts.
            let least = if is_verdict { *count } else { count - count / 20 };
            (is_verdict || counts[3] == 0) && found.get(at).copied().unwrap_or(0) < least
        });
        if is_excused || !(is_less || (kind != NameKind::Test && found.is_empty())) {
            continue;
        }
        lost.push(format!(
            "{} `{name}` has {found:?}, the ledger has {counts:?}: restore it, or give the reason in {GONE}AREA.txt",
            kind.word()
        ));
    }
    lost
}

#[cfg(test)]
mod tests;
