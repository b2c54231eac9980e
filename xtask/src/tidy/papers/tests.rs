use super::super::{assert_clean, assert_found};
use super::*;

const SOURCES: [(&str, &str); 3] = [
    ("crates/medium/src/guard/keys.rs", "mod tests { #[test] fn wild() {} fn not_a_test() {} }"),
    ("tests/e2e/disk.rs", "proptest! { #[test] fn killed(x in 0..9) {} }"),
    ("bench/src/write_schemes.rs", "//! x"),
];

fn page(row: &str) -> String {
    format!("# Papers\n\n| claim | module | test | experiment |\n|---|---|---|---|\n| `free` text | {row} |\n")
}

#[track_caller]
fn with(row: &str, judge: impl Fn(&[(&str, &str)])) {
    let page = page(row);
    judge(&[SOURCES[0], SOURCES[1], SOURCES[2], (PAGE, &page)]);
}

#[test]
fn rows_that_point_nowhere_are_found() {
    let rows = [
        "`medium::guard::kees` | - | -",
        "- | `medium::guard::keys::tame` | -",
        "- | `medium::guard::keys::not_a_test` | -",
        "- | `pool::guard::keys::wild` | -",
        "- | `medium::keys::guard::wild` | -",
        "- | `wild` | -",
        "- | - | `write_schemes`",
    ];
    for row in rows {
        with(row, |files| assert_found(check, files, "docs/papers.md:5"));
    }
    assert_found(check, &SOURCES, "docs/papers.md:1");
}

#[test]
fn rows_that_point_at_what_is_there_pass() {
    with("`medium::guard::keys` | `medium::guard::keys::wild`, `tests::disk::killed` | `write-schemes`", |files| {
        assert_clean(check, files);
    });
    with("`medium::guard::keys` | `medium::guard::keys::tests::wild` | -", |files| assert_clean(check, files));
}
