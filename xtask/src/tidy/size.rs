//! Files, functions and pages that can be read at once. Clippy refuses functions of more than 120 lines (clippy.toml).

use super::{CheckedProject, RuleFinding};

/// Lines of a file from which on it is worth a look.
const FILE_WARNING: usize = 500;

/// The most lines of a file.
const FILE_MAX: usize = 900;

/// Lines of a function from which on it is worth a look.
const FUNCTION_WARNING: usize = 80;

/// How the paths of pages begin, the most lines of each, and the most characters of a line.
const PAGES: [(&str, usize, usize); 3] =
    [("README.md", 80, 120), ("ARCHITECTURE.md", 200, usize::MAX), ("docs/decisions/", 40, usize::MAX)];

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for source in &project.sources {
        let lines = source.text.lines().count();
        if lines > FILE_MAX {
            let what = format!("the file has {lines} lines, {FILE_MAX} are allowed: split it by what it does");
            findings.push(RuleFinding::new(source.path, 1, what));
        }
    }
    for (begin, lines_max, columns_max) in PAGES {
        for file in project.tree.files.iter().filter(|file| file.path.starts_with(begin)) {
            let lines = file.text.lines().count();
            if lines > lines_max {
                let what = format!("{lines} lines, {lines_max} are allowed: move detail to docs/");
                findings.push(RuleFinding::new(&file.path, lines_max + 1, what));
            }
            let long = file.text.lines().position(|line| line.chars().count() > columns_max);
            findings.extend(
                long.map(|at| RuleFinding::new(&file.path, at + 1, format!("more than {columns_max} characters"))),
            );
        }
    }
}

/// Returns the files and functions that are long, though not too long.
pub fn warnings(project: &CheckedProject<'_>) -> Vec<RuleFinding> {
    let mut warnings = Vec::new();
    for source in &project.sources {
        let lines = source.text.lines().count();
        if lines > FILE_WARNING {
            warnings.push(RuleFinding::new(source.path, 1, format!("warning: a file of {lines} lines")));
        }
        for function in source.functions.iter().filter(|function| function.lines > FUNCTION_WARNING) {
            let what = format!("warning: `{}` has {} lines", function.name, function.lines);
            warnings.push(RuleFinding::new(source.path, function.line, what));
        }
    }
    warnings
}

#[cfg(test)]
mod tests;
