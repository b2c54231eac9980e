//! Sessions of subjects that measure nothing.

use super::*;
use crate::options::{BenchProgress, Length};
use crate::verdict::{figure, line};
use crate::{CaseFilter, Error};

fn options(only: Option<&str>) -> BenchOptions {
    BenchOptions {
        length: Length::Smoke,
        place: "/dev/shm".into(),
        ferrite: None,
        threads_many: 2,
        only: CaseFilter::containing(only),
    }
}

const PAPER: [PaperClaim; 1] = [PaperClaim { place: "figure 1", what: "one beside the other", ratio: 2.0 }];

fn constant(name: &str, value: f64) -> BenchSubject<'static> {
    BenchSubject::new(name, move |_| Ok(value))
}

#[test]
fn a_race_adds_a_row_for_each_subject_beside_the_one_that_is_named() {
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let mut session = BenchSession::new("x", &PAPER, 100, &options, &mut go_on);
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
fn the_verdict_is_the_table_then_what_was_left_out() {
    let (options, mut go_on) = (options(None), |_: &BenchProgress<'_>| true);
    let mut session = BenchSession::new("x", &PAPER, 100, &options, &mut go_on);
    let race = Race { case: "read", unit: "MB/s", rounds: 1, slice_ms: 1, beside: "a" };
    session.race(&race, vec![constant("a", 6.0), constant("b", 3.0)]).expect("nothing fails");
    session.left_out("nbdkit", "it is not installed");
    let table = [line("b beside a", "read"), figure("", "b").paper("2")];
    let report = session.end(&table, Some("more".into()));
    let wanted = "b beside a: 0.50 (paper: 2); more; nbdkit was left out: it is not installed";
    assert!(report.verdict.starts_with(wanted), "{}", report.verdict);
    assert_eq!((report.experiment, report.paper[0].ratio), ("x", 2.0));
}

#[test]
fn a_caller_that_wants_the_end_stops_the_race() {
    let options = options(None);
    let mut slices = 0;
    let mut count = |_: &BenchProgress<'_>| {
        slices += 1;
        slices < 3
    };
    let mut session = BenchSession::new("x", &PAPER, 100, &options, &mut count);
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
    let mut session = BenchSession::new("x", &PAPER, 100, &options, &mut go_on);
    let broken = BenchSubject::new("broken", |_| Err(Error::Server { who: "it".into(), what: "broke".into() }));
    let race = Race { case: "read", unit: "MB/s", rounds: 9, slice_ms: 1, beside: "" };
    let error = session.race(&race, vec![constant("a", 6.0), broken]).expect_err("it fails");
    assert_eq!(error.to_string(), "it: broke");
}

#[test]
fn only_loads_that_are_asked_for_are_wanted() {
    let (options, mut go_on) = (options(Some("256K")), |_: &BenchProgress<'_>| true);
    let mut session = BenchSession::new("x", &PAPER, 100, &options, &mut go_on);
    let load = |bytes| CopyLoad { writes: true, random: false, bytes, depth: 1 };
    let wanted = session.wanted(&[load(4 << 10), load(256 << 10)]);
    assert_eq!(wanted.iter().map(CopyLoad::name).collect::<Vec<_>>(), ["WR SEQ 256K Q1"]);
    session.chart("rates", ChartMeasure::Value, vec![]);
    session.chart("ratios", ChartMeasure::Ratio, vec![]);
    let levels: Vec<_> = session.report.charts.iter().map(|chart| chart.level).collect();
    assert_eq!(levels, [None, Some(1.0)], "a ratio is drawn beside 1");
}
