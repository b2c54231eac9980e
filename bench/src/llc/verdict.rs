//! How the policies here compare with the paper's.

use super::judged::{self, GAP, LIFETIME, MISSES, MOST};
use super::{sizes, speed, traced};
use crate::report::Report;
use crate::verdict::{figure, join};

/// The line.
pub fn of(report: &Report, missing: Vec<String>) -> String {
    let mut parts = Vec::new();
    let mean = |what: &str, policy: &str| {
        let case = format!("{what}, mean of ratios");
        report.row(&case, policy).map(|row| figure(row.ratio))
    };
    for (what, paper) in [
        ("2.5 lifetime", [("protect-0", ""), ("protect-4", ""), ("partitioned-4x4", "1.49")]),
        ("2.6 energy", [("protect-0", "0.81"), ("protect-4", "0.84"), ("partitioned-4x4", "0.79")]),
        ("2.7 writebacks", [("protect-0", ""), ("protect-4", ""), ("partitioned-4x4", "")]),
        ("2.8 misses", [("protect-0", ""), ("protect-4", ""), ("partitioned-4x4", "")]),
    ] {
        let told = paper.iter().filter_map(|(policy, theirs)| {
            let theirs = if theirs.is_empty() { String::new() } else { format!(" (paper: {theirs})") };
            Some(format!("{policy} {}{theirs}", mean(what, policy)?))
        });
        let told: Vec<String> = told.collect();
        if !told.is_empty() {
            parts.push(format!("{} of LRU's: {}", &what[4..], told.join(", ")));
        }
    }
    parts.extend(judged::GROUPS.iter().filter_map(|(group, _)| of_group(report, group)));
    parts.extend(sizes::told(report));
    parts.extend(speed(report));
    parts.extend(traced(report));
    join(report, parts, missing)
}

/// How fast the policy is simulated that takes longest, and LRU: in the mean of programs, and of the slowest.
fn speed(report: &Report) -> Option<String> {
    let of = |policy: &str| {
        let rows = report.rows.iter().filter(|row| row.subject == policy && row.case.starts_with(speed::CASE));
        let rates: Vec<f64> = rows.map(|row| row.value).collect();
        let mean = rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
        let least = rates.iter().copied().reduce(f64::min)?;
        Some(format!("{mean:.0} of {policy}'s (at the least {least:.0})"))
    };
    Some(format!("million events simulated a second on one core: {}, {}", of("worth")?, of("lru")?))
}

/// How fast a program's accesses are taken.
fn traced(report: &Report) -> Option<String> {
    let of = |subject| {
        let row = report.rows.iter().find(|row| row.subject == subject && row.case.starts_with(traced::CASE))?;
        Some(format!("{:.0}", row.value))
    };
    Some(format!("million accesses a second: {} live, {} from a file", of(traced::LIVE)?, of(traced::FILE)?))
}

/// What our own policy does for a group of programs, beside the others.
fn of_group(report: &Report, group: &str) -> Option<String> {
    let told = |what: &str, policy: &str| report.row(&judged::case(group, what), policy).map(|row| row.ratio);
    let all = |what: &str, others: [&str; 2]| {
        let others = others.map(|policy| told(what, policy).map(|ratio| format!("{policy} {}", figure(ratio))));
        let others: Vec<String> = others.into_iter().flatten().collect();
        Some(format!("{} ({})", figure(told(what, "worth")?), others.join(", ")))
    };
    let others = ["protect-0", "partitioned-4x4"];
    Some(format!(
        "worth, programs {group}: lifetime {}, misses {}, at most {}, {:.0} % of the gap closed",
        all(LIFETIME, others)?,
        all(MISSES, others)?,
        figure(told(MOST, "worth")?),
        100.0 * told(GAP, "worth")?
    ))
}
