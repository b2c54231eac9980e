//! The verdict of a hand-made report, and the cases.

use super::*;
use crate::tests::{case, report, verdict};
use crate::verdict::charts;

#[test]
fn the_verdict_has_rates_misses_and_space() {
    let rates = [(NORMAL, 100.0), (BETWEEN, 120.0), (SUPER, 150.0)];
    let mut rows = case("random read 4K", "MB/s", &rates);
    rows.extend(case("random write 2048K", "MB/s", &rates));
    rows.extend(case(MIXTURES[0].0, "k/s", &rates));
    rows.extend(case("random read 4K, TLB misses", "each", &[(NORMAL, 2.0), (SUPER, 0.5)]));
    rows.extend(case(SPACE, "MiB", &[(DATA, 1000.0), (SUPER, 1004.0)]));
    assert_eq!(
        verdict(EXPERIMENT.verdict, rows),
        [
            "random 4 KiB reads of a large file beside normal pages: superpages 1.50, superpages of the mapping alone 1.20",
            "a large file, by records, beside normal pages (paper: more): random write 1.50, random read 1.50",
            "small and large files beside normal pages: 1.50 (paper: more)",
            "TLB misses beside normal pages: 0.25 (paper: fewer)",
            "TLB misses of a random 4 KiB read: superpages 0.50, normal pages 2.00; if superpages miss as often, a hypervisor \
         maps them by 4 KiB, and only the walks are shorter",
            "space of a large file beside its bytes: 1.004 (paper: 1.01)",
        ]
    );
}

#[test]
fn cases_are_every_verb_at_every_record_and_both_mixtures() {
    let plan = PagePlan::of(Length::Smoke);
    let names: Vec<String> = plan.large().chain(plan.mixed()).map(|case| case.name).collect();
    assert_eq!(names.len(), VERBS.len() * 2 + MIXTURES.len());
    assert!(names.contains(&"sequential write 4K".into()) && names.contains(&"random read 2048K".into()), "{names:?}");
    let first = plan.large().next().expect("a case");
    assert_eq!(first.name_of(JobMeasure::Misses), "sequential write 4K, TLB misses");
}

/// A window smaller than its record would never be worked on.
#[test]
fn a_window_holds_a_record_at_least() {
    let plan = PagePlan::of(Length::Smoke);
    for case in plan.large() {
        let FileOrder::Work(job) = (case.order)(7, JobMeasure::Rate) else {
            panic!("{} is work on records", case.name)
        };
        assert!(job.window_bytes >= job.record_bytes && job.seed == 7 && job.threads == 1, "{job:?}");
    }
}

/// A case that no chart's pattern matches would be measured and never drawn.
#[test]
fn every_case_of_a_full_run_is_drawn_once() {
    let plan = PagePlan::of(Length::Full);
    let measured = |one: PageCase| {
        let rate = case(&one.name_of(JobMeasure::Rate), one.unit, &[(NORMAL, 1.0)]);
        rate.into_iter().chain(case(&one.name_of(JobMeasure::Misses), "each", &[(NORMAL, 1.0)]))
    };
    let rows: Vec<_> = plan.large().chain(plan.mixed()).flat_map(measured).collect();
    let count = rows.len();
    let mut drawn: Vec<String> =
        charts(&report(rows), EXPERIMENT.charts).into_iter().flat_map(|chart| chart.cases).collect();
    drawn.sort();
    assert_eq!(drawn.len(), count, "{drawn:?}");
    drawn.dedup();
    assert_eq!(drawn.len(), count, "a case is drawn twice");
}
