//! Structure: names of types that one file defines, types with few methods, parameters with names, and files that do not
//! import each other in circles. Test files do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use regex::Regex;

use super::{CheckedProject, RuleFinding};
use crate::source::{RustSource, is_test_path, item_end, pattern};

/// The highest share of names of types that several files define, in percent.
const SHARED_MAX: f64 = 10.05;

/// The most methods of a type in one package.
const METHODS_MAX: usize = 60;

/// The most files of one package that import each other in a circle.
const CYCLE_MAX: usize = 4;

static TYPE: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b(?:struct|enum|trait|type|union)\s+([A-Z]\w*)"));

static IMPL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?m)^impl(?:<[^>{]*>)?\s+([A-Z]\w*)(?:<[^{]*>)?\s*(?:where[^{]*)?\{"));

static FN: LazyLock<Regex> = LazyLock::new(|| pattern(r"\bfn\s"));

static TUPLE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\bfn\s+(\w+)[^{;]*[(,]\s*\((?:mut )?\w+(?:,\s*(?:mut )?\w+)+\)\s*:"));

/// A path that begins at the root of the crate or at the module above.
static INNER_PATH: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"\b(?P<start>crate|(?:super::)*super)::(?P<rest>\w+(?:::\w+)*)?(?:(?:::)?\{(?P<group>[^;]*?)\}\s*;)?")
});

static FIRST_WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?:^|,)\s*(\w+(?:::\w+)*)"));

/// What the structure of the workspace measures.
#[derive(Debug, Default)]
pub struct Measures {
    /// The share of names of types that several files define, in percent.
    pub shared: f64,
    /// The number of methods by package and type.
    pub methods: BTreeMap<String, usize>,
    /// The functions with a tuple as a parameter.
    pub tuples: Vec<TupleFunction>,
    /// The largest circle of files that import each other, by package.
    pub cycles: BTreeMap<String, Vec<String>>,
}

/// A function with a tuple as a parameter.
#[derive(Debug)]
pub struct TupleFunction {
    /// The path of the file.
    pub path: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// The name of the function.
    pub name: String,
}

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let measures = measures(&project.sources);
    if measures.shared > SHARED_MAX {
        let what = format!(
            "{:.1} % of the names of types stand in several files, {SHARED_MAX:.0} % are allowed: use two words, or keep the \
             type private in one file",
            measures.shared
        );
        findings.push(RuleFinding::new("crates", 1, what));
    }
    for (subject, count) in measures.methods.iter().filter(|(_, count)| **count > METHODS_MAX) {
        let what = format!("{count} methods, {METHODS_MAX} are allowed: give a part of it a type of its own");
        findings.push(RuleFinding::new(subject, 1, what));
    }
    for (package, files) in measures.cycles.iter().filter(|(_, files)| files.len() > CYCLE_MAX) {
        let (count, names) = (files.len(), files.join(", "));
        let what = format!("{count} files import each other in a circle, {CYCLE_MAX} may: {names}");
        findings.push(RuleFinding::new(package, 1, what));
    }
    for tuple in &measures.tuples {
        let what = format!("`{}` takes a tuple: name its parts in a struct, or pass them one by one", tuple.name);
        findings.push(RuleFinding::new(&tuple.path, tuple.line, what));
    }
}

/// Measures the structure of `sources`, test files left out.
pub fn measures(sources: &[RustSource<'_>]) -> Measures {
    let mut measures = Measures::default();
    let mut files_of: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let counts = |source: &&RustSource<'_>| !is_test_path(source.path) && !source.path.starts_with("fuzz/");
    for source in sources.iter().filter(counts) {
        for found in TYPE.captures_iter(&source.code) {
            files_of.entry(found.get(1).map_or("", |name| name.as_str())).or_default().insert(source.path);
        }
        for found in TUPLE.captures_iter(&source.code) {
            let line = source.line_at(found.get(0).map_or(0, |whole| whole.start()));
            measures.tuples.push(TupleFunction { path: source.path.into(), line, name: found[1].into() });
        }
        let package: Vec<&str> = source.path.split('/').take(2).collect();
        for found in IMPL.captures_iter(&source.code) {
            let start = found.get(0).map_or(0, |whole| whole.end()) - 1;
            let body = &source.code[start..item_end(&source.code, start)];
            *measures.methods.entry(format!("{}::{}", package.join("/"), &found[1])).or_default() +=
                FN.find_iter(body).count();
        }
    }
    let shared = files_of.values().filter(|files| files.len() > 1).count();
    measures.shared = 100.0 * shared as f64 / files_of.len().max(1) as f64;
    let mut by_package: BTreeMap<String, Vec<&RustSource<'_>>> = BTreeMap::new();
    for source in sources.iter().filter(counts) {
        if let Some((root, _)) = source.path.split_once("/src/") {
            by_package.entry(root.into()).or_default().push(source);
        }
    }
    measures.cycles = by_package.into_iter().map(|(root, sources)| (root, largest_cycle(&sources))).collect();
    measures
}

/// Returns the files of the largest circle of imports, or one file at most.
fn largest_cycle(sources: &[&RustSource<'_>]) -> Vec<String> {
    let modules: BTreeMap<Vec<&str>, usize> =
        sources.iter().enumerate().map(|(at, source)| (module_of(source.path), at)).collect();
    let edges: Vec<BTreeSet<usize>> = sources.iter().map(|source| imports(source, &modules)).collect();
    let reach: Vec<BTreeSet<usize>> = (0..sources.len()).map(|from| reached(from, &edges)).collect();
    let circle = |from: usize| reach[from].iter().copied().filter(|to| reach[*to].contains(&from)).collect::<Vec<_>>();
    let largest = (0..sources.len()).map(circle).max_by_key(Vec::len).unwrap_or_default();
    largest.into_iter().map(|at| sources[at].path.to_owned()).collect()
}

fn reached(from: usize, edges: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let (mut found, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(at) = next.pop() {
        next.extend(edges[at].iter().filter(|to| found.insert(**to)));
    }
    found
}

/// Returns the names of the modules that lead to the file at `path`: `crates/a/src/b/c.rs` is `b::c`.
fn module_of(path: &str) -> Vec<&str> {
    let inner = path.split_once("/src/").map_or(path, |(_, inner)| inner).trim_end_matches(".rs");
    inner.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod")).collect()
}

/// Returns the files that the product code of `source` names by a path from the root or from the module above.
fn imports(source: &RustSource<'_>, modules: &BTreeMap<Vec<&str>, usize>) -> BTreeSet<usize> {
    let here = module_of(source.path);
    let mut found = BTreeSet::new();
    for path in INNER_PATH.captures_iter(&source.code) {
        let at = path.get(0).map_or(0, |whole| whole.start());
        if source.is_test_at(at) {
            continue;
        }
        let start = &path["start"];
        let mut base = if start == "crate" {
            Vec::new()
        } else {
            here[..here.len().saturating_sub(start.split("::").count())].to_vec()
        };
        let rest = path.name("rest").map_or("", |rest| rest.as_str());
        base.extend(rest.split("::").filter(|part| !part.is_empty()));
        // A path without a group is one that ends in nothing more.
        let group = path.name("group").map_or("self", |group| group.as_str());
        let ends = FIRST_WORD.captures_iter(group).filter_map(|word| Some(word.get(1)?.as_str().split("::")));
        for end in ends {
            let mut path: Vec<&str> = base.iter().copied().chain(end).collect();
            while !modules.contains_key(&path) && path.pop().is_some() {}
            found.extend(modules.get(&path));
        }
    }
    found.retain(|to| modules.get(&here) != Some(to));
    found
}

#[cfg(test)]
mod tests;
