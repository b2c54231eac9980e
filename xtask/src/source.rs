//! Rust sources: their text without comments and literals, their functions, and which of it is test code only.
//!
//! A rule that searches `code` is not fooled by a word in a comment or by a brace in a string.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use crate::tree::ProjectTree;

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionSpan {
    /// The name of the function.
    pub name: String,
    /// The names of the `mod name { .. }` blocks around it, outermost first.
    pub modules: Vec<String>,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// The number of lines from `fn` to the closing brace.
    pub lines: usize,
    /// True if it carries `#[test]`.
    pub is_test: bool,
}

/// A Rust source.
#[derive(Debug)]
pub struct RustSource<'a> {
    /// The path from the root.
    pub path: &'a str,
    /// The whole text.
    pub text: &'a str,
    /// The text with a blank for each byte of a comment or a literal. Line breaks stay.
    pub code: String,
    /// The functions that have a body.
    pub functions: Vec<FunctionSpan>,
    /// The ranges of bytes that are compiled for tests only.
    tests: Vec<Range<usize>>,
    /// The offset of each line break.
    breaks: Vec<usize>,
}

/// Compiles a pattern of this program.
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Comments and literals, whichever begins first. A raw string may have four hashes.
static OPAQUE: LazyLock<Regex> = LazyLock::new(|| {
    let raw = |hashes: usize| format!(r#"|\b[bc]?r{0}".*?"{0}"#, "#".repeat(hashes));
    let raw: String = (0..5).map(raw).collect();
    pattern(&format!(r#"(?s)//[^\n]*|/\*.*?\*/{raw}|"(?:[^"\\]|\\.)*"|'(?:\\.[^']*|[^'\\])'"#))
});

static FUNCTION: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bfn\s+(?:r#)?(\w+)"));

static TEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))?\s+)?fn\s+(?:r#)?(\w+)"));

static TEST_ONLY: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"#(!?)\[(?:test\]|cfg\((?:all\()?(?:[^\]()]*,\s*)?test\b[^\]]*\])"));

static MODULE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bmod\s+(\w+)\s*\{"));

static DECLARED: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bmod\s+(\w+)\s*;"));

impl<'a> RustSource<'a> {
    /// Reads one file; all of it is test code if `test_only`.
    pub fn new(path: &'a str, text: &'a str, test_only: bool) -> Self {
        let code = blanked(text);
        let everything = 0..code.len();
        let tests = if test_only { vec![everything.clone()] } else { test_ranges(&code) };
        let breaks = code.match_indices('\n').map(|(at, _)| at).collect();
        let mut source = Self { path, text, code, functions: Vec::new(), tests, breaks };
        source.functions = source.functions_with_bodies();
        source
    }

    /// Reads every Rust source of `tree`.
    pub fn all(tree: &'a ProjectTree) -> Vec<Self> {
        let mut sources: Vec<Self> =
            tree.ending(".rs").map(|file| Self::new(&file.path, &file.text, lies_in_test_folder(&file.path))).collect();
        let stems: Vec<String> = sources.iter().flat_map(Self::test_modules).collect();
        for source in &mut sources {
            let stem = source.path.trim_end_matches(".rs");
            let is_below = |known: &String| {
                stem.strip_prefix(known.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            if stems.iter().any(is_below) {
                let everything = 0..source.code.len();
                source.tests = vec![everything];
            }
        }
        sources
    }

    /// Returns the paths, without `.rs`, of the modules that the file declares for tests only.
    fn test_modules(&self) -> Vec<String> {
        let stem = self.path.trim_end_matches(".rs");
        let folder = match stem.rsplit_once('/') {
            Some((folder, "lib" | "main" | "mod")) => folder,
            _ => stem,
        };
        let declared = DECLARED.captures_iter(&self.code).filter(|found| self.is_test_at(start_of(found)));
        declared.map(|found| format!("{folder}/{}", &found[1])).collect()
    }

    /// Returns true if the byte at `offset` is compiled for tests only.
    pub fn is_test_at(&self, offset: usize) -> bool {
        self.tests.iter().any(|range| range.contains(&offset))
    }

    /// Returns the text that is compiled for tests only.
    pub fn test_text(&self) -> impl Iterator<Item = &'a str> {
        let text = self.text;
        self.tests.iter().map(move |range| &text[range.clone()])
    }

    /// Returns the line of the byte at `offset`, from 1.
    pub fn line_at(&self, offset: usize) -> usize {
        self.breaks.partition_point(|at| *at < offset) + 1
    }

    fn functions_with_bodies(&self) -> Vec<FunctionSpan> {
        let code = self.code.as_str();
        let tests: Vec<usize> = TEST.captures_iter(code).filter_map(|found| Some(found.get(1)?.start())).collect();
        let blocks: Vec<(Range<usize>, &str)> = MODULE
            .captures_iter(code)
            .filter_map(|found| Some((start_of(&found)..item_end(code, start_of(&found)), found.get(1)?.as_str())))
            .collect();
        let function = |found: regex::Captures<'_>| {
            let (start, name) = (start_of(&found), found.get(1)?);
            let end = item_end(code, name.end());
            code[..end].ends_with('}').then(|| FunctionSpan {
                name: name.as_str().to_owned(),
                modules: blocks
                    .iter()
                    .filter(|(block, _)| block.contains(&start))
                    .map(|(_, name)| (*name).to_owned())
                    .collect(),
                line: self.line_at(start),
                lines: self.line_at(end) - self.line_at(start) + 1,
                is_test: tests.contains(&name.start()),
            })
        };
        FUNCTION.captures_iter(code).filter_map(function).collect()
    }
}

fn start_of(found: &regex::Captures<'_>) -> usize {
    found.get(0).map_or(0, |whole| whole.start())
}

/// Returns `text` with a blank for each byte of a comment or a literal.
fn blanked(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut end = 0;
    for found in OPAQUE.find_iter(text) {
        code += &text[end..found.start()];
        code.extend(found.as_str().bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
        end = found.end();
    }
    code + &text[end..]
}

fn test_ranges(code: &str) -> Vec<Range<usize>> {
    let range = |found: regex::Captures<'_>| {
        let whole = found.get(0)?;
        let end = if &found[1] == "!" { code.len() } else { item_end(code, whole.end()) };
        Some(whole.start()..end)
    };
    TEST_ONLY
        .captures_iter(code)
        .filter(|found| !found[0].contains("not(") && !found[0].contains("any("))
        .filter_map(range)
        .collect()
}

/// Returns the end of the item that `code` has at `start`: behind its closing brace or its semicolon.
pub fn item_end(code: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(byte, b';' | b'}') {
            return at + 1;
        }
    }
    code.len()
}

fn lies_in_test_folder(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/")
}

/// Returns true if the file at `path` is a test by its name: one of the folders is `tests`, or the file is `tests.rs`.
pub fn is_test_path(path: &str) -> bool {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    folders.split('/').any(|folder| matches!(folder, "tests" | "test" | "testing"))
        || matches!(name, "tests.rs" | "test.rs")
        || name.ends_with("_test.rs")
        || name.ends_with("_tests.rs")
        || name.starts_with("test_")
}

#[cfg(test)]
mod tests;
