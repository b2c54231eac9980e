//! The means by which docs/policy.md compares policies, over the programs that ours was designed on and over others.

use ferrite_sim::cache::{PolicyFigures, StudyReport};

use crate::report::ReportRow;

/// The groups of programs, and whether each was held out from the design of our policy.
pub const GROUPS: [(&str, bool); 2] = [("designed on", false), ("held out", true)];

/// The means of a group of programs.
pub const LIFETIME: &str = "lifetime, geometric mean";
pub const LEAST: &str = "lifetime, the least";
pub const MISSES: &str = "misses, mean of ratios";
pub const MOST: &str = "misses, the most";
pub const GAP: &str = "gap to the bound closed, mean";

/// The case of a mean of a group.
pub fn case(group: &str, what: &str) -> String {
    format!("{group}: {what}")
}

/// The rows of a group: one for each mean and policy.
pub fn rows(group: &str, reports: &[&StudyReport]) -> Vec<ReportRow> {
    let Some(first) = reports.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for what in [LIFETIME, LEAST, MISSES, MOST, GAP] {
        for at in 0..first.policies.len() {
            let pairs: Vec<(&PolicyFigures, &PolicyFigures)> =
                reports.iter().map(|one| (&one.policies[at], &one.policies[0])).collect();
            let ratio = value(what, &pairs);
            rows.push(ReportRow::once(case(group, what), &first.policies[at].policy, ratio, "lru", ratio));
        }
    }
    rows
}

fn value(what: &str, pairs: &[(&PolicyFigures, &PolicyFigures)]) -> f64 {
    let lifetimes = || pairs.iter().map(|(own, _)| own.lifetime_gain);
    let misses = || pairs.iter().map(|(own, lru)| own.misses() as f64 / lru.misses().max(1) as f64);
    match what {
        LIFETIME => mean(lifetimes().map(f64::ln)).exp(),
        LEAST => lifetimes().fold(f64::INFINITY, f64::min),
        MISSES => mean(misses()),
        MOST => misses().fold(0.0, f64::max),
        _ => mean(pairs.iter().filter_map(|(own, _)| own.gap_closed)),
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}
