//! Means over programs: of the paper's figures, and those by which docs/policy.md compares policies, over the programs that
//! ours was designed on and over others.

use ferrite_sim::cache::{PolicyFigures, StudyReport};

use super::FigureOf;
use crate::report::ReportRow;
use crate::rounds::quantile;

/// The groups of programs, and whether each was held out from the design of our policy.
pub const GROUPS: [(&str, bool); 2] = [("designed on", false), ("held out", true)];

/// The means of a group of programs.
pub const LIFETIME: &str = "lifetime, geometric mean";
pub const LEAST: &str = "lifetime, the least";
pub const MISSES: &str = "misses, mean of ratios";
pub const MOST: &str = "misses, the most";
pub const GAP: &str = "gap to the bound closed, mean";

/// A mean of the values of a policy and of LRU, of each program.
type ValueMean = fn(&[(f64, f64)]) -> f64;
/// A mean of the figures of a policy and of LRU, of each program.
type PolicyMean = fn(&[(&PolicyFigures, &PolicyFigures)]) -> f64;

const OF_FIGURES: [(&str, ValueMean); 4] = [
    ("geometric mean", |pairs| mean(ratios(pairs).map(f64::ln)).exp()),
    ("mean of ratios", |pairs| mean(ratios(pairs))),
    ("median", |pairs| if pairs.is_empty() { 1.0 } else { quantile(&ratios(pairs).collect::<Vec<_>>(), 0.5) }),
    ("ratio of sums", |pairs| {
        pairs.iter().map(|(own, _)| own).sum::<f64>() / pairs.iter().map(|(_, lru)| lru).sum::<f64>()
    }),
];

const OF_GROUPS: [(&str, PolicyMean); 5] = [
    (LIFETIME, |pairs| mean(pairs.iter().map(|(own, _)| own.lifetime_gain.ln())).exp()),
    (LEAST, |pairs| pairs.iter().map(|(own, _)| own.lifetime_gain).fold(f64::INFINITY, f64::min)),
    (MISSES, |pairs| mean(pairs.iter().map(|(own, lru)| misses(own, lru)))),
    (MOST, |pairs| pairs.iter().map(|(own, lru)| misses(own, lru)).fold(0.0, f64::max)),
    (GAP, |pairs| mean(pairs.iter().filter_map(|(own, _)| own.gap_closed))),
];

/// The case of a mean of a group.
pub fn case(group: &str, what: &str) -> String {
    format!("{group}: {what}")
}

/// The rows of a figure: one for each mean and policy.
pub fn of_figure(place: &str, what: &str, of: FigureOf, reports: &[&StudyReport]) -> Vec<ReportRow> {
    let means = OF_FIGURES.into_iter().filter(|(name, _)| what != "lifetime" || *name != "ratio of sums");
    let of_mean = |(name, mean): (&str, ValueMean)| {
        rows(&format!("{place} {what}, {name}"), reports, |pairs| {
            let values = pairs.iter().map(|(own, lru)| (of(own), of(lru)));
            mean(&values.filter(|(_, lru)| *lru > 0.0).collect::<Vec<_>>())
        })
    };
    means.flat_map(of_mean).collect()
}

/// The rows of a group of programs: one for each mean and policy.
pub fn of_group(group: &str, reports: &[&StudyReport]) -> Vec<ReportRow> {
    OF_GROUPS.into_iter().flat_map(|(what, mean)| rows(&case(group, what), reports, mean)).collect()
}

/// The rows of one mean, by policy.
fn rows(
    case: &str,
    reports: &[&StudyReport],
    mean: impl Fn(&[(&PolicyFigures, &PolicyFigures)]) -> f64,
) -> Vec<ReportRow> {
    let policies = reports.first().map_or(0, |first| first.policies.len());
    let row = |at: usize| {
        let pairs: Vec<_> = reports.iter().map(|one| (&one.policies[at], &one.policies[0])).collect();
        let ratio = mean(&pairs);
        ReportRow::once(case.into(), &pairs[0].0.policy, ratio, "lru", ratio)
    };
    (0..policies).map(row).collect()
}

fn ratios(pairs: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    pairs.iter().map(|(own, lru)| own / lru)
}

fn misses(own: &PolicyFigures, lru: &PolicyFigures) -> f64 {
    own.misses() as f64 / lru.misses().max(1) as f64
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    if count == 0.0 { 0.0 } else { sum / count }
}

#[cfg(test)]
mod tests;
