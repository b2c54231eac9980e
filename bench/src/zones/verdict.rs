//! How files by records here compare with the paper's.

use super::crowd;
use super::field::{CACHED, EXT4, LIBRARY, MOUNT, RAMFS, RUN, TMPFS, TMPFS_HUGE};
use crate::report::{Report, Row};
use crate::verdict::{Ratios, figure, join};

/// The line.
pub fn of(report: &Report, notes: Vec<String>) -> String {
    let mut parts = vec![data(report), appended(report), large(report), names(report), mount(report)];
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

/// How many times as fast as `beside` `subject` is in the cases that `wanted` picks.
fn times(report: &Report, (subject, beside): (&str, &str), wanted: impl Fn(&Row) -> bool) -> Option<Ratios> {
    let ratio = |row: &Row| {
        let other = report.row(&row.case, beside)?;
        Some(if row.unit == "MB/s" { row.value / other.value } else { other.value / row.value })
    };
    let rows = report.rows.iter().filter(|row| row.subject == subject && wanted(row));
    let mut ratios = rows.filter_map(ratio);
    let first = ratios.next()?;
    let start = Ratios { least: first, most: first };
    Some(ratios.fold(start, |all, one| Ratios { least: all.least.min(one), most: all.most.max(one) }))
}

fn is_small(row: &Row, verb: &str) -> bool {
    row.unit == "MB/s" && row.case.contains(verb) && row.case.ends_with(" 4K")
}

fn data(report: &Report) -> String {
    let pair = |subject, verb: &'static str| {
        let plain = times(report, (subject, TMPFS), |row| is_small(row, verb))?;
        let huge = times(report, (subject, TMPFS_HUGE), |row| is_small(row, verb));
        Some(huge.map_or(format!("{plain}"), |huge| format!("{plain} ({huge})")))
    };
    let told = |subject| {
        let (writes, reads) = (pair(subject, "write")?, pair(subject, "read")?);
        Some(format!("{subject} {writes} in writes and {reads} in reads"))
    };
    let ways: Vec<String> = [LIBRARY, RUN, MOUNT, CACHED, EXT4].into_iter().filter_map(told).collect();
    if ways.is_empty() {
        return String::new();
    }
    format!(
        "4 KiB by one thread beside tmpfs (tmpfs in huge pages), which promise nothing and find a page for each first \
         write, where the pool's are touched before: {} (paper: 1.06 to 1.14)",
        ways.join(", ")
    )
}

fn appended(report: &Report) -> String {
    let rows =
        report.rows.iter().filter(|row| row.case.ends_with(" 64 B") && [LIBRARY, RUN].contains(&row.subject.as_str()));
    let told: Vec<String> = rows.map(|row| format!("{} us by {}", figure(64.0 / row.value), row.subject)).collect();
    if told.is_empty() { String::new() } else { format!("an append of 64 bytes takes {}", told.join(", ")) }
}

fn large(report: &Report) -> String {
    let large = |row: &Row| row.case.ends_with(" 1024K");
    times(report, (LIBRARY, TMPFS), large).map_or(String::new(), |range| format!("library at 1 MiB {range}"))
}

fn names(report: &Report) -> String {
    let told = |case: &&str| {
        let range = times(report, (LIBRARY, RAMFS), |row| row.case == **case)?;
        Some(format!("{case} {range}"))
    };
    let told: Vec<String> = ["create and close", "stat again", "unlink"].iter().filter_map(told).collect();
    if told.is_empty() { String::new() } else { format!("library beside ramfs: {} times as fast", told.join(", ")) }
}

fn mount(report: &Report) -> String {
    report
        .row(crowd::CASE, crowd::FULL)
        .map_or(String::new(), |row| format!("a pool with a million files is mounted in {} ms", figure(row.value)))
}
