//! Sessions of subjects that measure nothing.

use super::*;
use crate::report::ChartMeasure;
use crate::tests::{experiment, options};
use crate::verdict::{TableEntry, figure, line, ratios, values};

fn constant(name: &str, value: f64) -> BenchSubject<'static> {
    BenchSubject::new(name, move |_| Ok(value))
}

#[test]
fn a_race_adds_a_row_for_each_subject_beside_the_one_that_is_named() {
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let experiment = experiment(&[]);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    let race = |beside| Race { case: "read", unit: "MB/s", rounds: 3, slice_ms: 1, beside };
    session.race(&race("b"), vec![constant("a", 6.0), constant("b", 3.0)]).expect("nothing fails");
    session.race(&race("nobody"), vec![constant("a", 6.0), constant("b", 3.0)]).expect("nothing fails");
    let rows: Vec<_> =
        session.report.rows.iter().map(|row| (&*row.subject, row.value, &*row.beside, row.ratio)).collect();
    assert_eq!(rows, [("a", 6.0, "b", 2.0), ("b", 3.0, "b", 1.0), ("a", 6.0, "a", 1.0), ("b", 3.0, "a", 0.5)]);
    let series = session.rounds(&race("b"), vec![constant("a", 1.0)]).expect("nothing fails");
    assert_eq!((series[0].values.len(), session.report.rows.len()), (3, 4), "rounds alone add no rows");
}

#[test]
fn the_verdict_is_the_table_then_findings_then_what_was_left_out() {
    const TABLE: &[TableEntry] = &[line("b beside a", "read"), figure("", "b").paper("2")];
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let experiment = experiment(TABLE);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    let race = Race { case: "read", unit: "MB/s", rounds: 1, slice_ms: 1, beside: "a" };
    session.race(&race, vec![constant("a", 6.0), constant("b", 3.0)]).expect("nothing fails");
    session.left_out("nbdkit", "it is not installed");
    session.findings.push("more".into());
    let report = session.end();
    let wanted = "b beside a: 0.50 (paper: 2); more; nbdkit was left out: it is not installed";
    assert!(report.verdict.starts_with(wanted), "{}", report.verdict);
    assert_eq!((report.experiment, report.paper[0].ratio), ("x", 2.0));
}

#[test]
fn a_caller_that_wants_the_end_stops_the_race() {
    let options = options(None);
    let mut slices = 0;
    let experiment = experiment(&[]);
    let mut count = |_: &BenchProgress<'_>| {
        slices += 1;
        slices < 3
    };
    let mut session = BenchSession::new(&experiment, &options, &mut count);
    let race = Race { case: "read", unit: "MB/s", rounds: 9, slice_ms: 1, beside: "" };
    let ended = session.race(&race, vec![constant("a", 6.0), constant("b", 3.0)]);
    assert!(matches!(ended, Err(Error::Interrupted)));
    assert_eq!(session.report.rows.len(), 0, "a race that was not finished has no rows");
    drop(session);
    assert_eq!(slices, 3);
}

#[test]
fn a_subject_that_fails_ends_the_race_with_its_error() {
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let experiment = experiment(&[]);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    let broken = BenchSubject::new("broken", |_| Err(Error::Server { who: "it".into(), what: "broke".into() }));
    let race = Race { case: "read", unit: "MB/s", rounds: 9, slice_ms: 1, beside: "" };
    let error = session.race(&race, vec![constant("a", 6.0), broken]).expect_err("it fails");
    assert_eq!(error.to_string(), "it: broke");
}

#[test]
fn only_cases_that_are_asked_for_are_wanted() {
    let (options, mut go_on) = (options(Some("256K")), |_: &BenchProgress<'_>| true);
    let experiment = experiment(&[]);
    let session = BenchSession::new(&experiment, &options, &mut go_on);
    assert_eq!(session.wanted([4, 256], |kib| format!("WR SEQ {kib}K Q1")), [256]);
}

#[test]
fn charts_have_the_cases_that_were_measured_in_the_order_of_their_rows() {
    const CHARTS: &[TableEntry] =
        &[values("rates", "write *").except("* 1M"), ratios("ratios", "*").unit("s"), values("nothing", "read*")];
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let experiment = Experiment { charts: CHARTS, ..experiment(&[]) };
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    for (case, unit) in [("write 64K", "MB/s"), ("write 4K", "MB/s"), ("write 1M", "MB/s"), ("tar", "s")] {
        let race = Race { case, unit, rounds: 1, slice_ms: 1, beside: "a" };
        session.race(&race, vec![constant("a", 6.0), constant("b", 3.0)]).expect("nothing fails");
    }
    let charts = session.end().charts;
    let drawn: Vec<_> = charts.iter().map(|chart| (&*chart.title, chart.measure, chart.level)).collect();
    assert_eq!(drawn, [("rates", ChartMeasure::Value, None), ("ratios", ChartMeasure::Ratio, Some(1.0))]);
    assert_eq!(
        (&charts[0].cases[..], &charts[1].cases[..]),
        (&["write 64K", "write 4K"].map(String::from)[..], &["tar".to_owned()][..])
    );
}

#[test]
fn progress_never_goes_back_nor_over_the_end() {
    let mut seen = Vec::new();
    let mut watch = |progress: &BenchProgress<'_>| {
        seen.push((progress.what.to_owned(), progress.done, progress.total));
        true
    };
    let (experiment, options) = (experiment(&[]), options(None));
    let mut session = BenchSession::new(&experiment, &options, &mut watch);
    session.announce("making disks").expect("the caller goes on");
    for what in ["read", "read", "write"] {
        session.step(what, 60).expect("the caller goes on");
    }
    drop(session);
    assert_eq!(
        seen.iter().map(|(_, done, total)| (*done, *total)).collect::<Vec<_>>(),
        [(0, 100), (60, 100), (100, 100), (100, 100)]
    );
    assert_eq!((seen[0].0.as_str(), seen[3].0.as_str()), ("making disks", "write"));
}

#[test]
fn a_caller_that_wants_the_end_interrupts() {
    let (experiment, options, mut stop) = (experiment(&[]), options(None), |_: &BenchProgress<'_>| false);
    let ended = BenchSession::new(&experiment, &options, &mut stop).step("read", 1);
    assert_eq!(ended.expect_err("it was asked to end").to_string(), "interrupted: nothing was written");
}
