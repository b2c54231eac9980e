//! Tables of reports that are made by hand.

use super::*;
use crate::tests::{case, report, verdict};

fn rows() -> Vec<ReportRow> {
    let mut rows = case("read 4K", "MB/s", &[("bare", 100.0), ("keys", 50.0), ("private", 25.0)]);
    rows.extend(case("read 64K", "MB/s", &[("bare", 200.0), ("keys", 190.0)]));
    rows.extend(case("untar", "s", &[("bare", 2.0), ("keys", 3.0)]));
    rows
}

#[track_caller]
fn assert_lines<const N: usize>(table: &[TableEntry], lines: [&str; N]) {
    assert_eq!(verdict(table, rows()), lines);
}

#[test]
fn ratios_are_told_by_their_ends() {
    let describe = |least, most| ValueRange { least, most }.to_string();
    assert_eq!(describe(0.512, 0.97), "0.51 to 0.97");
    assert_eq!(describe(1.001, 1.002), "1.00");
    assert_eq!(describe(0.0123, 110.4), "0.012 to 110");
}

#[test]
fn two_digits_are_significant_at_every_size() {
    let texts = [0.0004, 0.0999, 0.1, 2.994, 3.0, 19.96, 20.0, 1234.5].map(significant);
    assert_eq!(texts, ["0.000", "0.100", "0.10", "2.99", "3.0", "20.0", "20", "1234"]);
}

#[test]
fn a_star_stands_for_any_text() {
    for (pattern, text) in [
        ("", ""),
        ("*", ""),
        ("*", "any"),
        ("a*", "a"),
        ("*a", "ba"),
        ("a*c", "abc"),
        ("*, nt", "keys, nt"),
        ("*b*b*", "abab"),
    ] {
        assert!(matches(pattern, text), "{pattern} does not match {text}");
    }
    for (pattern, text) in
        [("", "a"), ("a", "ab"), ("a*", "ba"), ("*a", "ab"), ("a*c", "abcd"), ("*, nt", "keys, nt, barriers")]
    {
        assert!(!matches(pattern, text), "{pattern} matches {text}");
    }
    assert!(matches("*é", "café") && !matches("*é", "cafe"), "a pattern splits no character");
}

#[test]
fn a_figure_is_the_range_over_the_cases_of_its_line() {
    assert_lines(&[line("keys beside bare", "read *"), figure("", "keys")], ["keys beside bare: 0.50 to 0.95"]);
    assert_lines(
        &[line("beside bare", "read 4K"), figure("keys", "keys"), figure("private", "private").paper("0.85")],
        ["beside bare: keys 0.50, private 0.25 (paper: 0.85)"],
    );
}

#[test]
fn a_figure_adds_its_case_to_that_of_the_line() {
    let table = [line("keys", "read "), figure("small", "keys").case("4K"), figure("large", "keys").case("64K")];
    assert_lines(&table, ["keys: small 0.50, large 0.95"]);
    assert_lines(&[line("keys", "*"), figure("", "keys").except("read 64K").except("read *")], ["keys: 1.50"]);
    assert_lines(&[line("keys", "*"), figure("", "keys").unit("s")], ["keys: 1.50"]);
}

#[test]
fn what_was_not_measured_is_left_out() {
    assert_lines(&[line("nothing", "read *"), figure("", "nobody"), remark("never shown")], []);
    let table =
        [line("first", "write *"), figure("", "keys"), line("second", "untar"), figure("a", "b"), figure("c", "keys")];
    assert_lines(&table, ["second: c 1.50"]);
    assert_eq!(verdict(&[], rows()), [""; 0]);
}

/// A subject beside itself is always 1, and would widen every range.
#[test]
fn a_subject_beside_itself_is_no_figure() {
    assert_lines(&[line("all", "read 4K"), figure("", "*")], ["all: 0.25 to 0.50"]);
    assert_lines(&[line("bare", "read 4K"), figure("", "bare")], []);
    assert_lines(&[line("bare", "read 4K"), figure("", "bare").value("MB/s")], ["bare: 100 MB/s"]);
}

#[test]
fn a_ratio_to_another_subject_is_that_of_the_values() {
    let table = [line("private beside keys", "read *"), figure("", "private").beside("keys")];
    assert_lines(&table, ["private beside keys: 0.50"]);
    assert_lines(
        &[line("keys beside private", "read *"), figure("", "keys").beside("private")],
        ["keys beside private: 2.00"],
    );
    assert_lines(&[line("beside nobody", "read *"), figure("", "keys").beside("nobody")], []);
}

/// Rounds of neighbours in time are trusted more than medians of a whole run.
#[test]
fn a_ratio_that_was_measured_is_preferred_to_one_of_medians() {
    let mut rows = case("read 4K", "MB/s", &[("bare", 100.0), ("keys", 50.0)]);
    rows[1].ratio = 0.7;
    let table = [line("keys", "read 4K"), figure("", "keys").beside("bare")];
    assert_eq!(verdict(&table, rows.clone()), ["keys: 0.70"]);
    let alone = ReportRow { beside: "alone".into(), ratio: 0.9, ..rows[1].clone() };
    rows.push(alone);
    assert_eq!(verdict(&table, rows), ["keys: 0.70"], "the ratio to another subject is not mixed in");
}

#[test]
fn figures_are_shown_as_they_are_asked_for() {
    let shown = |entry: TableEntry| verdict(&[line("x", "read *"), entry], rows()).concat();
    assert_eq!(shown(figure("", "keys").fine()), "x: 0.500 to 0.950");
    assert_eq!(shown(figure("", "keys").inverse()), "x: 1.05 to 2.00");
    assert_eq!(shown(figure("", "keys").value("MB/s")), "x: 50 to 190 MB/s");
    assert_eq!(shown(figure("", "keys").value("")), "x: 50 to 190");
    assert_eq!(shown(figure("", "private").time_of(50.0)), "x: 2.00 us");
    assert_eq!(shown(figure("label", "private").value("MB/s").paper("a lot")), "x: label 25 MB/s (paper: a lot)");
}

#[test]
fn lines_share_figures_and_end_in_remarks() {
    const SHARED: &[TableEntry] = &[figure("keys", "keys"), figure("private", "private")];
    let table = [
        line("4K", "read 4K"),
        figures(SHARED),
        remark("slow"),
        remark("but safe"),
        line("64K", "read 64K"),
        figures(SHARED),
    ];
    assert_lines(&table, ["4K: keys 0.50, private 0.25; slow; but safe", "64K: keys 0.95"]);
}

#[test]
fn a_range_of_nothing_is_none() {
    assert_eq!(ValueRange::of([].into_iter()), None);
    assert_eq!(ValueRange::of([2.0, 1.0, 3.0].into_iter()), Some(ValueRange { least: 1.0, most: 3.0 }));
    assert_eq!(lines(&report(Vec::new()), &[line("a", "*"), figure("", "*")]), [""; 0]);
}
