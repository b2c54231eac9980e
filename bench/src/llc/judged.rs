//! What a policy is judged on (docs/policy.md), over the programs that ours was designed on and over those held out.

use ferrite_sim::cache::{PolicyFigures, StudyReport};

use crate::report::Row;

/// Programs that ours was designed on, and others.
pub const GROUPS: [(&str, bool); 2] = [("designed on", false), ("held out", true)];

/// What is told of a group of programs.
pub const LIFETIME: &str = "lifetime, geometric mean";
pub const LEAST: &str = "lifetime, the least";
pub const MISSES: &str = "misses, mean of ratios";
pub const MOST: &str = "misses, the most";
pub const GAP: &str = "gap to the bound closed, mean";

/// The case of a group.
pub fn case(group: &str, what: &str) -> String {
    format!("{group}: {what}")
}

/// The rows of a group, for each policy.
pub fn rows(group: &str, reports: &[&StudyReport]) -> Vec<Row> {
    let Some(first) = reports.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for what in [LIFETIME, LEAST, MISSES, MOST, GAP] {
        for at in 0..first.policies.len() {
            let pairs: Vec<(&PolicyFigures, &PolicyFigures)> =
                reports.iter().map(|one| (&one.policies[at], &one.policies[0])).collect();
            rows.push(row(case(group, what), &first.policies[at].policy, value(what, &pairs)));
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

fn row(case: String, policy: &str, ratio: f64) -> Row {
    let beside = "lru".into();
    Row { case, subject: policy.into(), unit: "", value: ratio, beside, ratio, low: ratio, high: ratio }
}
