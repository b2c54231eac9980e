//! Over all programs: the mean of their ratios, the geometric mean, the median, and the ratio of their sums.

use ferrite_sim::cache::{PolicyFigures, StudyReport};

use super::FigureOf;
use crate::report::ReportRow;

/// The rows of a figure: one for each mean and policy.
pub fn rows(place: &str, what: &str, of: FigureOf, reports: &[&StudyReport]) -> Vec<ReportRow> {
    let Some(first) = reports.first() else { return Vec::new() };
    let mut rows = Vec::new();
    for (at, policy) in first.policies.iter().enumerate() {
        let pairs: Vec<(f64, f64)> =
            reports.iter().map(|one| (of(&one.policies[at]), of(&one.policies[0]))).filter(|one| one.1 > 0.0).collect();
        let count = pairs.len().max(1) as f64;
        let mean = pairs.iter().map(|(own, lru)| own / lru).sum::<f64>() / count;
        let geometric = (pairs.iter().map(|(own, lru)| (own / lru).ln()).sum::<f64>() / count).exp();
        rows.push(row(format!("{place} {what}, mean of ratios"), policy, mean));
        rows.push(row(format!("{place} {what}, geometric mean"), policy, geometric));
        rows.push(row(format!("{place} {what}, median"), policy, median(&pairs)));
        if what != "lifetime" {
            let sum = |side: fn(&(f64, f64)) -> f64| pairs.iter().map(side).sum::<f64>();
            rows.push(row(format!("{place} {what}, ratio of sums"), policy, sum(|one| one.0) / sum(|one| one.1)));
        }
    }
    rows.sort_by(|one, other| one.case.cmp(&other.case));
    rows
}

/// The median of the ratios, or 1 of no ratios.
fn median(pairs: &[(f64, f64)]) -> f64 {
    let mut ratios: Vec<f64> = pairs.iter().map(|(own, lru)| own / lru).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |place: usize| ratios.get(place).copied().unwrap_or(1.0);
    f64::midpoint(at(ratios.len().saturating_sub(1) / 2), at(ratios.len() / 2))
}

fn row(case: String, policy: &PolicyFigures, ratio: f64) -> ReportRow {
    ReportRow::once(case, &policy.policy, ratio, "lru", ratio)
}

#[cfg(test)]
mod tests;
