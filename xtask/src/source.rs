//! A Rust source with its tokens, its functions, and which of it is test code only.

use crate::lexer::{Token, lex};
use crate::tree::Tree;

/// A function with a body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The `mod name { .. }` blocks around it, outermost first.
    pub modules: Vec<String>,
    /// Line of its `fn`.
    pub line: usize,
    /// Lines from `fn` to the closing brace.
    pub lines: usize,
    /// Whether it carries `#[test]`.
    pub is_test: bool,
}

/// A Rust source.
#[derive(Debug)]
pub struct Source<'a> {
    /// Path from the root.
    pub path: &'a str,
    /// All of it.
    pub text: &'a str,
    /// Its tokens.
    pub tokens: Vec<Token<'a>>,
    /// For each token, whether it is compiled for tests only.
    pub in_test: Vec<bool>,
}

impl<'a> Source<'a> {
    /// Reads one file; all of it counts as test code if `test_only`.
    pub fn new(path: &'a str, text: &'a str, test_only: bool) -> Self {
        let tokens = lex(text);
        let mut in_test = vec![test_only; tokens.len()];
        for attribute in attributes(&tokens) {
            if attribute.is_test(&tokens) {
                let end = if attribute.inner { tokens.len() } else { item_end(&tokens, attribute.end) };
                in_test[attribute.start..end].fill(true);
            }
        }
        Self { path, text, tokens, in_test }
    }

    /// Every Rust source of `tree`.
    pub fn all(tree: &'a Tree) -> Vec<Self> {
        let test_only = test_only_paths(tree);
        let is_test = |path: &str| lies_in_test_folder(path) || test_only.iter().any(|stem| is_module(path, stem));
        tree.ending(".rs").map(|file| Self::new(&file.path, &file.text, is_test(&file.path))).collect()
    }

    /// The tokens that ship, with their places.
    pub fn shipped(&self) -> impl Iterator<Item = (usize, &Token<'a>)> {
        self.tokens.iter().enumerate().filter(|(at, _)| !self.in_test[*at])
    }

    /// Whether the tokens from `at` read as `words`.
    pub fn reads(&self, at: usize, words: &[&str]) -> bool {
        let here = self.tokens.get(at..at + words.len()).unwrap_or_default();
        here.len() == words.len() && here.iter().zip(words).all(|(token, word)| token.text == *word)
    }

    /// Its functions with bodies.
    pub fn functions(&self) -> Vec<Function> {
        let tests: Vec<usize> = attributes(&self.tokens)
            .filter(|attribute| attribute.words(&self.tokens) == ["test"])
            .map(|attribute| next_fn(&self.tokens, attribute.end))
            .collect();
        let starts = (0..self.tokens.len()).filter(|at| self.tokens[*at].is_ident("fn"));
        starts.filter_map(|at| self.function(at, tests.contains(&at))).collect()
    }

    fn function(&self, at: usize, is_test: bool) -> Option<Function> {
        let name = self.tokens.get(at + 1).filter(|token| token.kind == crate::lexer::Kind::Ident)?;
        let end = item_end(&self.tokens, at);
        let last = self.tokens[..end].last().filter(|token| token.is_punct('}'))?;
        let line = self.tokens[at].line;
        let modules = modules_around(&self.tokens, at);
        Some(Function { name: name.text.into(), modules, line, lines: last.line + 1 - line, is_test })
    }
}

/// `#[..]` or `#![..]`: its tokens are `start .. end`.
struct Attribute {
    start: usize,
    end: usize,
    inner: bool,
}

impl Attribute {
    fn words<'a>(&self, tokens: &[Token<'a>]) -> Vec<&'a str> {
        let open = self.start + if self.inner { 3 } else { 2 };
        tokens[open..self.end - 1].iter().map(|token| token.text).collect()
    }

    fn is_test(&self, tokens: &[Token<'_>]) -> bool {
        match self.words(tokens).as_slice() {
            ["test"] => true,
            ["cfg", rest @ ..] => rest.contains(&"test") && !rest.contains(&"not") && !rest.contains(&"any"),
            _ => false,
        }
    }
}

fn attributes<'t>(tokens: &'t [Token<'_>]) -> impl Iterator<Item = Attribute> + 't {
    (0..tokens.len()).filter_map(|start| {
        let mark = |at: usize, c| tokens.get(at).is_some_and(|token: &Token<'_>| token.is_punct(c));
        let inner = mark(start + 1, '!');
        let open = start + 1 + usize::from(inner);
        (mark(start, '#') && mark(open, '[')).then(|| Attribute { start, end: close_of(tokens, open), inner })
    })
}

/// One past the bracket that closes the one at `open`.
fn close_of(tokens: &[Token<'_>], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.text {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// One past the end of the item that starts at `at`: its body's closing brace, or its semicolon.
fn item_end(tokens: &[Token<'_>], mut at: usize) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            ";" => return at + 1,
            "{" => return close_of(tokens, at),
            "(" | "[" => at = close_of(tokens, at),
            _ => at += 1,
        }
    }
    tokens.len()
}

fn next_fn(tokens: &[Token<'_>], from: usize) -> usize {
    (from..tokens.len()).find(|at| tokens[*at].is_ident("fn")).unwrap_or(tokens.len())
}

fn modules_around(tokens: &[Token<'_>], at: usize) -> Vec<String> {
    let opens =
        |start: &usize| tokens[*start].is_ident("mod") && tokens.get(start + 2).is_some_and(|t| t.is_punct('{'));
    let holds = |start: &usize| close_of(tokens, start + 2) > at;
    (0..at).filter(opens).filter(holds).map(|start| tokens[start + 1].text.to_owned()).collect()
}

fn lies_in_test_folder(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.contains("/benches/")
}

/// The modules declared as `#[cfg(test)] mod name;`, as paths without ending.
fn test_only_paths(tree: &Tree) -> Vec<String> {
    let declared = |path: &str, text: &str| {
        let source = Source::new(path, text, false);
        let named = |at: &usize| source.in_test[*at] && source.reads(*at, &["mod"]) && source.reads(at + 2, &[";"]);
        let names: Vec<String> =
            (0..source.tokens.len()).filter(named).map(|at| source.tokens[at + 1].text.to_owned()).collect();
        names.into_iter().map(|name| format!("{}/{name}", module_folder(path))).collect::<Vec<_>>()
    };
    tree.ending(".rs").flat_map(|file| declared(&file.path, &file.text)).collect()
}

/// Where the modules declared in the file at `path` lie.
fn module_folder(path: &str) -> &str {
    let stem = path.trim_end_matches(".rs");
    match stem.rsplit_once('/') {
        Some((folder, "lib" | "main" | "mod")) => folder,
        _ => stem,
    }
}

/// Whether the file at `path` is the module `stem` or lies in it.
fn is_module(path: &str, stem: &str) -> bool {
    path.strip_prefix(stem).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shipped(text: &str) -> Vec<&str> {
        Source::new("x.rs", text, false).shipped().map(|(_, token)| token.text).collect()
    }

    #[test]
    fn test_code_is_told_from_what_ships() {
        assert_eq!(shipped("a; #[cfg(test)] mod tests { fn x() {} } b"), ["a", ";", "b"]);
        assert_eq!(shipped("#[test] #[ignore] fn t() -> [u8; 2] { } c"), ["c"]);
        assert_eq!(shipped("#[cfg(all(test, unix))] use x::y; d"), ["d"]);
        assert!(shipped("#[cfg(not(test))] fn real() {}").contains(&"real"));
        assert_eq!(shipped("#![cfg(test)] fn all() {}"), [""; 0]);
    }

    #[test]
    fn a_module_declared_for_tests_is_test_code_with_all_below_it() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "#[cfg(test)] mod model; mod real;"),
            ("crates/a/src/model.rs", "fn x() {}"),
            ("crates/a/src/model/deep.rs", "fn x() {}"),
            ("crates/a/src/modeller.rs", "fn x() {}"),
            ("crates/a/src/real.rs", "fn y() {} #[cfg(test)] mod tests;"),
            ("crates/a/src/real/tests.rs", "fn x() {}"),
        ]);
        let tests: Vec<&str> = Source::all(&tree)
            .iter()
            .filter(|source| source.in_test.iter().all(|t| *t))
            .map(|source| source.path)
            .collect();
        assert_eq!(tests, ["crates/a/src/model.rs", "crates/a/src/model/deep.rs", "crates/a/src/real/tests.rs"]);
    }

    #[test]
    fn functions_know_their_length_module_and_whether_they_are_tests() {
        let text = "trait T { fn no_body(x: [u8; 2]); }\nmod m {\n#[test]\nfn t() {\n  \"}\";\n}\n}\nfn two() where A: B<{ 1 }> {}";
        let functions = Source::new("x.rs", text, false).functions();
        assert_eq!(functions[0].name, "t");
        assert_eq!((functions[0].line, functions[0].lines, functions[0].is_test), (4, 3, true));
        assert_eq!(functions[0].modules, ["m"]);
        assert_eq!((functions[1].name.as_str(), functions[1].is_test), ("two", false));
    }
}
