//! The same programs before last levels of several sizes.

use ferrite_sim::cache::StudyReport;

use super::judged;
use crate::report::{BOUND, Row};

/// Sizes of the last level, in MiB.
pub const SIZES: [u64; 4] = [1, 2, 4, 8];

/// The figures of each program at each size.
const WHAT: [(&str, super::Of); 3] = [
    ("lifetime", |one| one.lifetime_gain),
    ("misses", |one| one.misses() as f64),
    ("writebacks", |one| one.writebacks as f64),
];

/// How the cases of a size begin.
pub fn group(size: u64) -> String {
    format!("{size} MiB")
}

/// The rows of a program at a size, for each policy.
pub fn rows(size: u64, program: &str, report: &StudyReport) -> Vec<Row> {
    let lru = &report.policies[0];
    let mut rows = Vec::new();
    for (what, of) in WHAT {
        let case = format!("{} {what}, {program}", group(size));
        rows.extend(report.policies.iter().map(|one| super::row(case.clone(), &one.policy, (of(one), of(lru)))));
    }
    let case = format!("{} writebacks, {program}", group(size));
    rows.push(super::row(case, BOUND, (report.bound.writebacks as f64, lru.writebacks as f64)));
    rows
}

/// The rows of all programs at a size, for each policy.
pub fn means(size: u64, reports: &[&StudyReport]) -> Vec<Row> {
    judged::rows(&group(size), reports)
}

/// What our own policy does at each size, in words.
pub fn told(report: &crate::report::Report) -> Option<String> {
    let each = |what: &str| {
        let of = |size: u64| report.row(&judged::case(&group(size), what), "worth").map(|row| row.ratio);
        let all: Option<Vec<String>> = SIZES.map(|size| of(size).map(crate::verdict::figure)).into_iter().collect();
        Some(all?.join(", "))
    };
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    Some(format!(
        "worth at {sizes} MiB: lifetime {} (the least {}), misses at most {}",
        each(judged::LIFETIME)?,
        each(judged::LEAST)?,
        each(judged::MOST)?
    ))
}
