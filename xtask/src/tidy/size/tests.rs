use super::super::{assert_clean, assert_found};
use super::*;
use crate::tree::ProjectTree;

#[test]
fn a_file_or_a_page_that_is_too_long_is_found() {
    assert_found(check, &[("a.rs", &"\n".repeat(901))], "a.rs:1");
    assert_found(check, &[("README.md", &"x\n".repeat(81))], "README.md:81");
    assert_found(check, &[("README.md", &format!("\n{}\n", "x".repeat(121)))], "README.md:2");
    assert_found(check, &[("docs/decisions/0001-a.md", &"x\n".repeat(41))], "docs/decisions/0001-a.md:41");
}

#[test]
fn what_is_short_passes() {
    assert_clean(check, &[("a.rs", &"\n".repeat(900)), ("README.md", &"x\n".repeat(80))]);
}

#[test]
fn a_long_function_is_worth_a_warning() {
    let text = format!("fn long() {{\n{}}}\nfn short() {{}}\n", "x();\n".repeat(79));
    assert_eq!(warnings(&CheckedProject::new(&ProjectTree::of(&[("a.rs", &text)]))).len(), 1);
}
