use super::super::{assert_clean, assert_found};
use super::*;

const README: (&str, &str) = ("README.md", "# Ferrite\n");

#[test]
fn unfinished_business_is_found() {
    for line in ["// TODO: more", "# FIXME", "\"XXX\"", "a /* TODO */"] {
        assert_found(check, &[("docs/a.md", &format!("\n{line}\n")), README], "docs/a.md:2");
    }
}

#[test]
fn words_on_the_making_and_paths_of_one_machine_are_found() {
    for line in
        ["Co-Authored-By: someone", "Found in an earlier session.", "see /work/main/x", "`/root/pool`", "(/home/me)"]
    {
        assert_found(check, &[("docs/a.md", &format!("\n{line}\n")), README], "docs/a.md:2");
    }
}

#[test]
fn a_source_without_an_opening_line_is_found() {
    assert_found(check, &[("a.rs", "fn f() {}"), README], "a.rs:1");
}

#[test]
fn good_text_passes() {
    let text =
        "//! A session with its NBD client.\nfn f() { mktemp(\"a.XXXXXX\"); todo(); let p = \"target/work/x\"; }\n";
    assert_clean(check, &[("a.rs", text), README]);
    assert_clean(check, &[("crates/a/src/a/tests.rs", "fn f() {}"), README]);
}
