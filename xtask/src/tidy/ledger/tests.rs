use super::super::{assert_clean, assert_found};
use super::*;

const TESTS: (&str, &str) = ("testdata/ledger/tests.txt", "canary_a 1\nb 2\n");
const INVARIANTS: (&str, &str) = ("testdata/ledger/invariants.txt", "A1\nA2 cited\n");
const STATED: (&str, &str) = ("crates/a/src/lib.rs", "//! - A1. One.\n//! - A2. Two.\n");
const CITING: &str = "//! Shows A2.\n#[test] fn canary_a() {} #[test] fn b() {} mod m { #[test] fn b() {} }";
const CITED: (&str, &str) = ("crates/a/tests/a.rs", CITING);

fn gone(lines: &str) -> (&str, &str) {
    ("testdata/ledger/gone/a.txt", lines)
}

#[test]
fn the_names_of_the_ledger_pass_wherever_they_stand() {
    assert_clean(check, &[TESTS, INVARIANTS, STATED, CITED]);
    assert_clean(check, &[TESTS, INVARIANTS, STATED, ("crates/b/tests/x.rs", CITING)]);
}

#[test]
fn a_lost_test_is_found_until_its_reason_is_given() {
    let fewer = ("crates/a/tests/a.rs", "//! Shows A2.\n#[test] fn canary_a() {} #[test] fn b() {}");
    assert_found(check, &[TESTS, INVARIANTS, STATED, fewer], "testdata/ledger/tests.txt:1");
    assert_clean(check, &[TESTS, INVARIANTS, STATED, fewer, gone("test b: the command went")]);
}

#[test]
fn a_replaced_test_is_found_until_its_successor_is_there() {
    let renamed = ("crates/a/tests/a.rs", "//! A2.\n#[test] fn canary_a() {} #[test] fn c() {} #[test] fn b() {}");
    assert_found(check, &[TESTS, INVARIANTS, STATED, renamed], "testdata/ledger/tests.txt:1");
    let both = "//! A2.\n#[test] fn canary_a() {} #[test] fn c() {} mod m { #[test] fn c() {} }";
    let reason = gone("test b -> c\n");
    assert_found(check, &[TESTS, INVARIANTS, STATED, renamed, reason], "testdata/ledger/tests.txt:1");
    assert_clean(check, &[TESTS, INVARIANTS, STATED, ("crates/a/tests/a.rs", both), reason]);
}

#[test]
fn one_test_may_replace_several() {
    let one =
        ("crates/a/tests/a.rs", "//! A2.\n#[test] fn canary_a() {} #[test] fn c() {} mod m { #[test] fn c() {} }");
    let kept = ("testdata/ledger/tests.txt", "canary_a 1\nb 2\nd 1\n");
    assert_clean(check, &[kept, INVARIANTS, STATED, one, gone("test b -> c\ntest d -> c\n")]);
}

#[test]
fn a_canary_stays_a_canary() {
    let renamed = ("crates/a/tests/a.rs", "//! A2.\n#[test] fn x() {} #[test] fn b() {} mod m { #[test] fn b() {} }");
    assert_found(
        check,
        &[TESTS, INVARIANTS, STATED, renamed, gone("test canary_a -> x")],
        "testdata/ledger/tests.txt:1",
    );
}

#[test]
fn an_invariant_that_is_stated_or_cited_no_more_is_found() {
    let uncited = CITING.replace("A2", "");
    assert_clean(check, &[TESTS, INVARIANTS, STATED, CITED, ("crates/a/tests/b.rs", "#[test] fn a2_holds() {}")]);
    let files = [TESTS, INVARIANTS, STATED, ("crates/a/tests/a.rs", uncited.as_str())];
    assert_found(check, &files, "testdata/ledger/invariants.txt:1");
    let unstated = ("crates/a/src/lib.rs", "//! - A2. Two.\n");
    assert_found(check, &[TESTS, INVARIANTS, unstated, CITED], "testdata/ledger/invariants.txt:1");
}

#[test]
fn a_reason_that_says_nothing_is_found() {
    for line in ["test b:", "test b", "tests b: why", "test b ->"] {
        assert_found(check, &[STATED, CITED, gone(line)], "testdata/ledger/gone/a.txt:1");
    }
}

#[test]
fn explorations_are_summed_by_test_and_may_not_try_less() {
    let lines = "tests::crash::x 3 40 0\ntests::crash::x 2 5 0\ntests::canary_y 9 9 1\n";
    let kept = explorations(lines);
    assert_eq!(kept["x"], [2, 5, 45, 0]);
    assert_eq!(names_of(&text_of(NameKind::Exploration, &kept)), kept);
    let lost = |lines: &str| missing(NameKind::Exploration, &kept, &explorations(lines), &Reasons::default()).len();
    assert_eq!(lost(lines), 0);
    assert_eq!(lost("a::x 3 40 0\na::x 2 1 0\na::canary_y 9 9 1"), 1, "a tenth less");
    assert_eq!(lost("a::x 3 40 0\na::x 2 5 0\na::canary_y 1 1 1"), 0, "a planted bug that is met earlier");
    assert_eq!(lost("a::x 3 40 0\na::x 2 5 0\na::canary_y 9 9 0"), 1, "a planted bug that is not met");
    assert_eq!(lost("a::x 3 40 0\na::x 2 5 0"), 1, "an exploration less");
}
