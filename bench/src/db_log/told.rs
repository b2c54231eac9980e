//! How databases here compare with the paper's.

use super::appends::{BARE, GROUP};
use super::redis::WITHOUT;
use super::{DISK, HDD, NOTHING, OWN, RELAXED, RUN, RUN_RELAXED, SSD, STRICT};
use crate::report::Report;
use crate::verdict::figure;

/// Of a case: how many times as many commits strict has as `subject`.
fn times(report: &Report, case: &str, subject: &str) -> Option<String> {
    report.row(case, subject).filter(|row| row.beside == STRICT).map(|row| figure(1.0 / row.ratio))
}

/// The parts of the line.
pub fn parts(report: &Report) -> Vec<String> {
    let mut parts = Vec::new();
    for case in
        ["SQLite update", "SQLite speedtest1", "Redis SET, 1 client", "Redis SET, 50 clients", "PostgreSQL update"]
    {
        let found: Vec<String> = [
            (RELAXED, "relaxed (paper: 1)"),
            (NOTHING, "what never syncs on tmpfs"),
            (DISK, "ext4 on a disk of ours"),
            (OWN, "this disk"),
            (SSD, "the SSD (1.9)"),
            (HDD, "the hard disk (332)"),
        ]
        .into_iter()
        .filter_map(|(subject, name)| Some(format!("{} of {name}", times(report, case, subject)?)))
        .collect();
        if !found.is_empty() {
            parts.push(format!("{case}: strict has {}", found.join(", ")));
        }
    }
    for case in ["Redis SET, 1 client", "Redis SET, 50 clients"] {
        let speed = |subject: &str| report.row(case, subject).map(|row| row.ratio);
        if let (Some(run), Some(without)) = (speed(RUN), speed(WITHOUT)) {
            parts.push(format!("{case} under ferrite run: {} of what keeps no log", figure(run / without)));
        }
    }
    let speed = |subject: &str| report.row("PostgreSQL update", subject).map(|row| row.ratio);
    if let (Some(strict), Some(relaxed)) = (speed(RUN), speed(RUN_RELAXED)) {
        parts.push(format!("PostgreSQL update under ferrite run: strict has {} of relaxed", figure(strict / relaxed)));
    }
    let of = |subject: &str| report.row("append 64 B", subject).filter(|row| row.beside == BARE).map(|row| row.ratio);
    if let (Some(strict), Some(relaxed), Some(group)) = (of(STRICT), of(RELAXED), of(GROUP)) {
        parts.push(format!(
            "a 64-byte record takes {} of a bare store and fence, relaxed {}, 16 to a fence {}",
            figure(strict),
            figure(relaxed),
            figure(group)
        ));
    }
    parts
}
