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
mod tests {
    use super::super::{assert_clean, assert_found};
    use super::*;

    #[test]
    fn a_file_that_does_not_say_why_is_found() {
        for text in ["//! A.\n#![allow(unsafe_code)]\n", "//! A.\n#[allow(dead_code, unsafe_code)] mod b;\n"] {
            assert_found(check, &[("a.rs", text)], "a.rs:2");
        }
    }

    #[test]
    fn a_file_that_says_why_passes() {
        let texts = [
            "//! A.\n//!\n//! Unsafe because it maps memory.\n#![allow(unsafe_code)]\n",
            "//! A.\n#![allow(unsafe_code)] // It maps memory.\n",
            "//! A.\n#![allow(unsafe_code, reason = \"it maps memory\")]\n",
            "//! A.\n// #![allow(unsafe_code)]\n",
        ];
        for text in texts {
            assert_clean(check, &[("a.rs", text)]);
        }
    }
}
