//! What is in the picture.

use super::*;
use crate::tests::{case, report};

fn drawn(charts: Vec<Chart>) -> String {
    let mut rows = case("fio: erases", "erase", &[("ext4", 100.0), ("xfs", 80.0), (BOUND, 50.0)]);
    rows.extend(case("tar: erases", "erase", &[("ext4", 10.0), ("xfs", 20.0)]));
    BenchReport { charts, ..report(rows) }.svg().expect("it can be drawn")
}

fn chart(measure: ChartMeasure, level: Option<f64>) -> Chart {
    let cases = vec!["fio: erases".into(), "tar: erases".into()];
    Chart { title: "Erases (figure 3.11)".into(), measure, cases, level }
}

fn count(svg: &str, what: &str) -> usize {
    svg.matches(what).count()
}

#[test]
fn a_chart_has_a_title_a_legend_and_a_bar_for_each_row() {
    let svg = drawn(vec![chart(ChartMeasure::Value, None)]);
    for text in ["Erases (figure 3.11)", "ext4", "xfs", "bound", "erase"] {
        assert!(svg.contains(text), "{text} is missing");
    }
    // The background, four bars and two colours of the legend.
    assert_eq!(count(&svg, "<rect"), 7);
    assert!(svg.starts_with("<svg") && svg.contains("height=\"330\""), "one panel");
}

/// The end that all cases share is in the title.
#[test]
fn cases_are_labelled_without_what_all_of_them_end_with() {
    let svg = drawn(vec![chart(ChartMeasure::Value, None)]);
    assert!(svg.contains("\nfio\n") && !svg.contains("fio: erases"), "{svg}");
}

#[test]
fn a_ratio_is_drawn_beside_its_subject_and_level() {
    let plain = drawn(vec![chart(ChartMeasure::Ratio, None)]);
    assert!(plain.contains("times ext4"));
    let levelled = drawn(vec![chart(ChartMeasure::Ratio, Some(1.0))]);
    assert_eq!(count(&levelled, "<polyline"), count(&plain, "<polyline") + 1);
}

#[test]
fn each_chart_is_a_panel_and_no_chart_is_an_empty_picture() {
    assert!(drawn(vec![chart(ChartMeasure::Value, None), chart(ChartMeasure::Ratio, None)]).contains("height=\"660\""));
    let empty = drawn(vec![]);
    assert!(empty.contains("height=\"330\"") && !empty.contains("ext4"));
}

#[test]
fn subjects_beside_several_others_are_times_the_better_peer() {
    let mut rows = case("a", "MB/s", &[("x", 2.0), ("y", 1.0)]);
    rows.extend(case("b", "MB/s", &[("y", 2.0), ("x", 1.0)]));
    let chart =
        Chart { title: "t".into(), measure: ChartMeasure::Ratio, cases: vec!["a".into(), "b".into()], level: None };
    let svg = BenchReport { charts: vec![chart], ..report(rows) }.svg().expect("it can be drawn");
    assert!(svg.contains("times the better peer"));
}
