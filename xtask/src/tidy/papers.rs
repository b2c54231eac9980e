//! docs/papers.md points at modules, tests and experiments that exist.
//!
//! In each table with the columns *module*, *test* and *experiment*, the names in backticks are looked up: a module is
//! `package::path`, a test is `package::path::name` with or without an inner `mod tests`, and an experiment is the name of a
//! file of bench/src.

use std::collections::BTreeSet;

use super::{CheckedProject, RuleFinding, package_of};

const PAGE: &str = "docs/papers.md";

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let Some(page) = project.tree.text(PAGE) else {
        findings.push(RuleFinding::new(PAGE, 1, "there is none: say which claim of which paper is where"));
        return;
    };
    let known = KnownRows::of(project);
    let mut columns: Vec<&str> = Vec::new();
    for (at, line) in page.lines().enumerate() {
        let cells = cells(line);
        if cells.is_empty() || columns.is_empty() {
            columns = cells;
            continue;
        }
        for (column, cell) in columns.iter().zip(cells) {
            // The texts between backticks.
            let missing = cell.split('`').skip(1).step_by(2).filter(|name| !known.has(column, name));
            findings.extend(missing.map(|name| {
                RuleFinding::new(
                    PAGE,
                    at + 1,
                    format!("there is no {column} `{name}`: correct the row, or move it to what is not built"),
                )
            }));
        }
    }
}

/// Returns the cells of a table's row, and nothing for other lines.
fn cells(line: &str) -> Vec<&str> {
    let row = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|'));
    row.map(|row| row.split('|').map(str::trim).collect()).unwrap_or_default()
}

struct KnownRows {
    modules: BTreeSet<String>,
    tests: Vec<Vec<String>>,
    experiments: BTreeSet<String>,
}

impl KnownRows {
    fn of(project: &CheckedProject<'_>) -> Self {
        let (mut modules, mut tests, mut experiments) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        for source in &project.sources {
            let Some(path) = module_path(source.path) else { continue };
            modules.insert(path.join("::"));
            experiments.extend(experiment(source.path));
            for function in source.functions.iter().filter(|function| function.is_test) {
                tests.push([path.clone(), function.modules.clone(), vec![function.name.clone()]].concat());
            }
        }
        Self { modules, tests, experiments }
    }

    fn has(&self, column: &str, name: &str) -> bool {
        match column.to_lowercase().as_str() {
            "module" => self.modules.contains(name),
            "test" => self.tests.iter().any(|test| is_named(test, name)),
            "experiment" => self.experiments.contains(name),
            _ => true,
        }
    }
}

/// Returns the module of a file: `crates/pool/src/a/b.rs` is `pool::a::b`, `tests/e2e/x.rs` is `tests::x`.
fn module_path(path: &str) -> Option<Vec<String>> {
    let package = package_of(path)?;
    let stem = path.strip_suffix(".rs")?;
    let mut parts = stem.split('/').skip(1).skip_while(|part| *part != "src" && *part != "tests" && *part != "e2e");
    parts.next()?;
    let named = parts.filter(|part| !matches!(*part, "lib" | "main" | "mod"));
    Some(std::iter::once(package).chain(named).map(str::to_owned).collect())
}

fn experiment(path: &str) -> Option<String> {
    let name = path.strip_prefix("bench/src/")?;
    Some(name.strip_suffix(".rs")?.trim_end_matches("/mod").replace('_', "-"))
}

/// Returns true if `name` has the first and the last part of the test's path, and its other parts in the order of the path.
fn is_named(test: &[String], name: &str) -> bool {
    let said: Vec<&str> = name.split("::").collect();
    let mut rest = test.iter();
    said.len() > 1
        && said.first().copied() == test.first().map(String::as_str)
        && said.last().copied() == test.last().map(String::as_str)
        && said.iter().all(|part| rest.any(|known| known == part))
}

#[cfg(test)]
mod tests;
