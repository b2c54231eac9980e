//! The verdict of a hand-made report, and the cases.

use std::collections::BTreeSet;

use super::guest_case::{ALL, ALL_PARA, MSYNC};
use super::*;
use crate::tests::{case, verdict};

#[test]
fn the_verdict_has_each_goal_beside_the_paper() {
    let mut rows = case("file server, zipf 0.99", "MB/s", &[(ALL, 400.0), ("hv 20 %", 360.0), ("hv 40 %", 380.0)]);
    let varmail = [(ALL, 100.0), ("hv 20 %", 93.0), (ALL_PARA, 90.0), ("pv 20 %", 81.0), (MSYNC, 2.0)];
    rows.extend(case("varmail, uniform", "MB/s", &varmail));
    rows.extend(case(update_cost::CASE, "us", &[("bare mapping", 0.5), (update_cost::PARA, 1.0), (MSYNC, 200.0)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "file server, kept of all memory: zipf, hv at 20 % (wanted 0.88) 0.90 (paper: 0.8), hv at 40 % (wanted 0.92) 0.95",
            "varmail, kept of all memory: hv at 20 % (wanted 0.92) 0.93 (paper: 0.6), pv at 20 % (wanted 0.85) 0.90, mmap \
             and msync on this disk 0.020",
            "4 KiB made durable, times as long as the bare copy and fence: persist and barrier (wanted 3 at most) 2.00, \
             msync on this disk 400, msync beside persist and barrier (wanted 10 at least) 200",
        ]
    );
}

#[test]
fn each_case_has_its_baseline_first_and_each_subject_once() {
    for length in [Length::Full, Length::Quick, Length::Smoke] {
        let cases = GuestCase::all(length);
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        assert_eq!(names.len(), cases.len(), "{names:?}");
        for case in &cases {
            let subjects: BTreeSet<&str> = case.subjects.iter().map(|subject| subject.name.as_str()).collect();
            assert_eq!(subjects.len(), case.subjects.len(), "{}: {subjects:?}", case.name);
            assert!(case.subjects.len() > 1, "{}", case.name);
        }
        let parts = cases.iter().filter(|case| case.name.contains("uniform"));
        assert!(parts.clone().count() >= 4 && parts.clone().all(|case| case.subjects[0].name == ALL));
    }
}
