//! The programs before last levels of several sizes.

use ferrite_sim::cache::StudyReport;

use super::{beside_lru, group_means};
use crate::report::{BOUND, ReportRow};

/// Sizes of the last level, in MiB.
pub const SIZES: [u64; 4] = [1, 2, 4, 8];

/// The figures of each program at each size.
const WHAT: [(&str, super::FigureOf); 3] = [
    ("lifetime", |one| one.lifetime_gain),
    ("misses", |one| one.misses() as f64),
    ("writebacks", |one| one.writebacks as f64),
];

/// The beginning of the cases of a size in MiB.
pub fn group(size: u64) -> String {
    format!("{size} MiB")
}

/// The rows of a program at a size: one for each figure and policy.
pub fn rows(size: u64, program: &str, report: &StudyReport) -> Vec<ReportRow> {
    let lru = &report.policies[0];
    let mut rows = Vec::new();
    for (what, of) in WHAT {
        let case = format!("{} {what}, {program}", group(size));
        rows.extend(report.policies.iter().map(|one| beside_lru(&case, &one.policy, of(one), of(lru))));
    }
    let case = format!("{} writebacks, {program}", group(size));
    rows.push(beside_lru(&case, BOUND, report.bound.writebacks as f64, lru.writebacks as f64));
    rows
}

/// The means over all programs at a size.
pub fn means(size: u64, reports: &[&StudyReport]) -> Vec<ReportRow> {
    group_means::rows(&group(size), reports)
}
