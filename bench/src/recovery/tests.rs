//! The rows of a crash, by hand.

use super::*;
use crate::tests::{case, options, verdict};

fn figures(after: [f64; 3]) -> CrashFigures {
    CrashFigures { before: vec![99.0, 100.0, 101.0], after: after.into(), back_ms: 30.0, open_ms: 8.0, steps: [5, 6] }
}

#[test]
fn a_rate_is_back_with_the_first_window_of_nine_tenths() {
    let options = options(None);
    let mut watch = |_: &crate::BenchProgress<'_>| true;
    let mut session = BenchSession::new(&EXPERIMENT, &options, &mut watch);
    let plan = CrashPlan { window_ms: 100, ..CrashPlan::of(Length::Smoke) };
    add_rows(&mut session, &plan, &[(KILLED, figures([40.0, 95.0, 80.0])), (UNMAPPED, figures([50.0, 60.0, 70.0]))]);
    let report = session.end();
    let row = |case: &str, subject: &str| report.row(case, subject).map(|row| (row.value, row.ratio));
    assert_eq!(row("+0.0 s: dbench on PCM", KILLED), Some((40.0, 0.4)));
    assert_eq!(row("-0.3 s: dbench on PCM", UNMAPPED), Some((99.0, 0.99)));
    assert_eq!(row(RATE, KILLED), Some((130.0, 1.0)));
    assert_eq!(row(RATE, UNMAPPED), None);
    assert!(report.verdict.contains("all pages unmapped: the rate did not come back"), "{}", report.verdict);
    assert!(report.verdict.contains("step 5 had ended, and the next process found step 6"), "{}", report.verdict);
}

#[test]
fn the_verdict_has_the_times_of_both_crashes() {
    let both = |killed, unmapped| [(KILLED, killed), (UNMAPPED, unmapped)];
    let mut rows = case(BACK, "ms", &both(30.0, 2.0));
    rows.extend(case(RATE, "ms", &both(130.0, 100.0)));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "milliseconds until the program runs again: killed 30, unmapped 2.00",
            "milliseconds until 90 % of the rate: killed 130 (paper: gradually), unmapped 100 (paper: gradually)",
        ]
    );
}
