use super::super::{assert_clean, assert_found};
use super::*;

const MAP: (&str, &str) = ("ARCHITECTURE.md", "| | where | what |\n|---|---|---|\n| A, BC | `a.rs` | b |\n");

#[test]
fn letters_of_two_modules_and_letters_off_the_map_are_found() {
    let (one, other) = (("a.rs", "//! A.\n//! - A1. One.\n"), ("b.rs", "//! B.\n//!\n//! - A1. Another.\n"));
    assert_found(check, &[MAP, one, other], "b.rs:3");
    assert_found(check, &[MAP, ("a.rs", "//! - D1. One.\n//! - D2. Two.\n")], "a.rs:1");
}

#[test]
fn good_text_passes() {
    let text = "//! - A1. One.\n//! - A2. Two; BC1 is elsewhere.\n//! - 7. No name.\n//! - A. Neither.\n";
    assert_clean(check, &[MAP, ("a.rs", text), ("b.rs", "//! - BC1. Three.\n//! - NBD. A list.\n")]);
}
