//! Words that no text of the project has: marks of unfinished work, words on its making, paths of one machine. And every
//! source begins with a line that says what the file is.

use super::{CheckedProject, RuleFinding};

/// This file, which spells the words that it looks for.
const SELF: [&str; 2] = ["xtask/src/tidy/text.rs", "xtask/src/tidy/text/tests.rs"];

const UNFINISHED: [&str; 3] = ["TODO", "FIXME", "XXX"];

/// Words on the making of the project, in lower case.
const MAKING_OF: [&str; 12] = [
    "co-authored-by",
    "signed-off-by",
    "language model",
    "ai assistant",
    "ai-generated",
    "chatbot",
    "coding agent",
    "sub-agent",
    "subagent",
    "earlier session",
    "today's session",
    "development session",
];

const MACHINE_PATHS: [&str; 3] = ["/work/", "/root/", "/home/"];

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    let ours = |path: &str| !SELF.contains(&path) && path != "Cargo.lock" && !path.starts_with("LICENSE");
    for file in project.tree.files.iter().filter(|file| ours(&file.path)) {
        for (at, line) in file.text.lines().enumerate() {
            findings.extend(fault(line).map(|what| RuleFinding::new(&file.path, at + 1, what)));
        }
    }
    for source in &project.sources {
        let is_told_by_its_module = source.path.ends_with("/tests.rs") && source.path.contains("/src/");
        if !source.text.starts_with("//!") && !is_told_by_its_module {
            findings.push(RuleFinding::new(
                source.path,
                1,
                "the first line says what the file is: begin with `//! ..`",
            ));
        }
    }
}

fn fault(line: &str) -> Option<String> {
    if let Some(word) = UNFINISHED.iter().find(|word| has_word(line, word)) {
        return Some(format!("`{word}`: finish it, or open an issue and leave no mark"));
    }
    let lower = line.to_lowercase();
    if let Some(phrase) = MAKING_OF.iter().find(|phrase| lower.contains(**phrase)) {
        return Some(format!("\"{phrase}\": the project speaks of itself alone, not of how it was made"));
    }
    let path = MACHINE_PATHS.iter().find(|path| begins_path(line, path))?;
    Some(format!("`{path}` exists on one machine: name a path in the project, or one that everybody has"))
}

fn has_word(line: &str, word: &str) -> bool {
    let part_of_name = |c: char| c == '_' || c.is_alphanumeric();
    line.match_indices(word)
        .any(|(at, _)| !line[..at].ends_with(part_of_name) && !line[at + word.len()..].starts_with(part_of_name))
}

fn begins_path(line: &str, path: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '}' | '/' | '~');
    line.match_indices(path).any(|(at, _)| !line[..at].ends_with(inside))
}

#[cfg(test)]
mod tests;
