//! How buffers here compare with the paper's.

use super::{BATCH, BUFFER, KEYS, MANY, NAIVE};
use crate::report::Report;
use crate::verdict::{figure, join, range};

/// The line.
pub fn of(report: &Report, threads_many: usize) -> String {
    let sequential = format!("WR SEQ 4K Q{threads_many}");
    let random = format!("WR RND 4K Q{threads_many}");
    let over = |case: &str, one: &str, other: &str| {
        Some(figure(report.row(case, one)?.value / report.row(case, other)?.value))
    };
    let pair = |one: &str, other: &str| Some((over(&sequential, one, other)?, over(&random, one, other)?));
    let mut parts = Vec::new();
    parts.extend(
        range(report, |row| row.subject == NAIVE)
            .map(|range| format!("naive page table: {range} of no guard (paper: 0.054)")),
    );
    if let Some((sequential, random)) = pair(BUFFER, NAIVE) {
        parts.push(format!(
            "4K with many in flight, in sequence and at random: one buffer is {sequential} and {random} times naive (0.40 in \
             sequence): it adds a copy and a lock, and saves no system call"
        ));
    }
    if let Some((sequential, random)) = pair(BATCH, NAIVE) {
        parts.push(format!(
            "batching {sequential} and {random} times naive (2.57 and 0.48): only neighbours share a change of the page table"
        ));
    }
    if let Some((sequential, random)) = pair(MANY, BATCH) {
        parts.push(format!("16 buffers {sequential} and {random} times one (1.52 and 1.94){}", why_few(report)));
    }
    parts.extend(
        range(report, |row| row.subject == KEYS).map(|range| format!("keys need none of it: {range} of no guard")),
    );
    join(report, parts, Vec::new())
}

fn why_few(report: &Report) -> String {
    let cores = report.machine.cores;
    if cores >= 8 { String::new() } else { format!(": on {cores} processors there is little concurrency to give back") }
}
