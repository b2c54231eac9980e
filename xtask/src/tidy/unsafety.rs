//! A file that may hold `unsafe` says why. The lint `unsafe_code` refuses all others.

use std::sync::LazyLock;

use regex::Regex;

use super::{CheckedProject, RuleFinding};
use crate::source::pattern;

static ALLOWANCE: LazyLock<Regex> = LazyLock::new(|| pattern(r"#!?\[(?:allow|expect)\([^\]]*\bunsafe_code\b"));

/// A reason: in the attribute, in a comment behind it, or in the head of the file.
static REASON: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"unsafe_code\b[^\]]*\breason\b|unsafe_code\)\] // \w|//[/!]? Unsafe because\b"));

pub(super) fn check(project: &CheckedProject<'_>, findings: &mut Vec<RuleFinding>) {
    for source in &project.sources {
        let Some(found) = ALLOWANCE.find(&source.code) else { continue };
        if !REASON.is_match(source.text) {
            let what = "say why this file may hold `unsafe`: #![allow(unsafe_code, reason = \"...\")]";
            findings.push(RuleFinding::new(source.path, source.line_at(found.start()), what));
        }
    }
}

#[cfg(test)]
mod tests;
