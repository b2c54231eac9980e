use super::super::{assert_clean, assert_found};
use super::*;

#[test]
fn each_construction_is_found() {
    let lines = [
        "Who opens a pool waits.",
        "space of who asks",
        "A client waits, who holds it",
        "Whoever comes first",
        "the pins of before",
        "empty but for one",
        "writes meanwhile",
        "begins anew",
        "amid a write",
        "waits in vain",
        "Nobody waits",
        "the owner is told",
        "lets the owner wait",
        "it is to be freed",
        "a lease is had",
        "the length comes to four",
        "the size of the file and that of the tag",
        "where there is none",
    ];
    for line in lines {
        assert!(fault(line).is_some(), "{line}");
    }
}

#[test]
fn plain_sentences_pass() {
    let lines = [
        "Opening a pool prints which failures it survives.",
        "Who is in the list",
        "The process who released the lock",
        "retells the foretold",
        "let x = 4",
    ];
    for line in lines {
        assert_eq!(fault(line), None, "{line}");
    }
}

#[test]
fn a_package_over_its_share_is_found() {
    let bad = ("crates/a/src/lib.rs", "//! Nobody waits.\n// A crash drops it.\nlet a = 1; // Fine.\n");
    assert_found(check, &[bad], "crates/a/src/lib.rs:1");
    let good = "// A crash drops it.\n".repeat(99);
    assert_clean(check, &[bad, ("crates/a/src/b.rs", &good)]);
    assert_clean(check, &[("crates/a/src/lib.rs", "//! Fine.\nlet nobody = \"nobody\";\n")]);
}

#[test]
fn pages_count_outside_their_samples() {
    assert_found(check, &[("docs/a.md", "Nobody waits.\n")], "docs/a.md:1");
    assert_clean(check, &[("docs/a.md", "```\nNobody waits.\n```\nFine.\n")]);
    assert_clean(check, &[("bindings/python/a.md", "Nobody waits.\n")]);
}
