use super::super::{assert_clean, assert_found};
use super::*;

#[test]
fn names_of_types_in_several_files_are_found() {
    let (one, other) = (("crates/a/src/a.rs", "struct Place; struct A;"), ("crates/b/src/b.rs", "enum Place {}"));
    assert_found(check, &[one, other], "crates:1");
    assert_clean(check, &[one, ("crates/b/src/tests.rs", "struct Place;"), ("b.rs", "// struct Place\nstruct B;")]);
}

#[test]
fn a_type_with_many_methods_is_found_over_all_files_of_its_package() {
    let half = format!("impl<T> Disk<T> {{ {} }}", "fn f() { loop {} } ".repeat(31));
    let files = [("crates/a/src/a.rs", half.as_str()), ("crates/a/src/b.rs", half.as_str())];
    assert_found(check, &files, "crates/a::Disk:1");
    assert_clean(check, &[files[0], ("crates/b/src/b.rs", &half)]);
}

#[test]
fn a_tuple_as_a_parameter_is_found() {
    for text in ["\nfn f((at, len): (u64, u64)) {}", "\nfn f(a: u8, (at, mut len): Pair) {}"] {
        assert_found(check, &[("crates/a/src/a.rs", text)], "crates/a/src/a.rs:2");
    }
    assert_clean(check, &[("crates/a/src/a.rs", "fn f(a: (u8, u8)) { let (a, b) = a; g(|(a, b)| a); }")]);
}

/// Five files, each of which imports the next.
fn ring(last: &str) -> Vec<(String, String)> {
    let next = |at: usize| if at < 4 { format!("use crate::m{};", at + 1) } else { last.to_owned() };
    (0..5).map(|at| (format!("crates/a/src/m{at}.rs"), next(at))).collect()
}

#[track_caller]
fn with_ring(last: &str, judge: impl Fn(&[(&str, &str)])) {
    let files = ring(last);
    judge(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>());
}

#[test]
fn a_circle_of_imports_is_found_whichever_way_it_closes() {
    let closings =
        ["use crate::m0::Zero;", "fn f() { super::m0::zero(); }", "use crate::{x, m0::Zero};", "use super::{m0};"];
    for closing in closings {
        with_ring(closing, |files| assert_found(check, files, "crates/a:1"));
    }
}

#[test]
fn a_chain_and_a_circle_of_tests_pass() {
    for closing in ["", "#[cfg(test)] use crate::m0;", "// use crate::m0;", "use crate::m4::Four;"] {
        with_ring(closing, |files| assert_clean(check, files));
    }
}
