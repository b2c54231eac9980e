//! How superpages here compare with the paper's.

use super::field::{BETWEEN, NORMAL, SUPER};
use super::{MISSES, MIXTURES, SPACE};
use crate::report::{Report, Row};
use crate::verdict::{Ratios, figure, join, range};

/// The line.
pub fn of(report: &Report, pages: &[(&'static str, u64)], notes: Vec<String>) -> String {
    let mut parts =
        vec![compared(pages), random_reads(report), large(report), mixed(report), misses(report), space(report)];
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

/// What was compared: where the host gives no huge pages, nothing was.
fn compared(pages: &[(&'static str, u64)]) -> String {
    let bytes = |wanted| pages.iter().find(|(name, _)| *name == wanted).map_or(0, |(_, bytes)| *bytes);
    let (huge, small) = (bytes(SUPER), bytes(NORMAL));
    let what = format!("superpages are mapped by {} KiB, normal pages by {} KiB", huge >> 10, small >> 10);
    if huge > small { what } else { format!("{what}: this machine has no two kinds to compare") }
}

fn random_reads(report: &Report) -> String {
    let Some(row) = report.row("random read 4K", SUPER) else { return String::new() };
    let between = report
        .row("random read 4K", BETWEEN)
        .map_or(String::new(), |row| format!(", {} where only the mapping is in superpages", figure(row.ratio)));
    format!("random 4 KiB reads of a large file: {} times normal pages{between}", figure(row.ratio))
}

fn of_super(report: &Report, wanted: impl Fn(&Row) -> bool) -> Option<Ratios> {
    range(report, |row| row.subject == SUPER && wanted(row))
}

fn large(report: &Report) -> String {
    let told = |verb: &'static str| {
        let ratios = of_super(report, |row| row.unit == "MB/s" && row.case.starts_with(verb))?;
        Some(format!("{verb} {ratios}"))
    };
    let told: Vec<String> =
        ["sequential write", "random write", "sequential read", "random read"].into_iter().filter_map(told).collect();
    if told.is_empty() { String::new() } else { format!("a large file, by records: {} (paper: more)", told.join(", ")) }
}

fn mixed(report: &Report) -> String {
    let mixed = of_super(report, |row| MIXTURES.iter().any(|(name, _)| row.case == *name));
    mixed.map_or(String::new(), |ratios| format!("small and large files: {ratios} (paper: more)"))
}

fn misses(report: &Report) -> String {
    let all = of_super(report, |row| row.case.ends_with(MISSES));
    let read = report
        .row(&format!("random read 4K{MISSES}"), SUPER)
        .zip(report.row(&format!("random read 4K{MISSES}"), NORMAL));
    let read = read.map_or(String::new(), |(here, there)| {
        format!(", {} beside {} for a random 4 KiB read", figure(here.value), figure(there.value))
    });
    let in_order = report.row(&format!("sequential read 4K{MISSES}"), SUPER);
    let why = if in_order.is_some_and(|row| row.value > 0.9) {
        "; superpages too miss once for every 4 KiB in order, as where a hypervisor maps by 4 KiB beneath: the gain here is in \
         shorter walks"
    } else {
        ""
    };
    all.map_or(String::new(), |ratios| format!("TLB misses: {ratios} of normal pages'{read} (paper: fewer){why}"))
}

fn space(report: &Report) -> String {
    let row = report.row(SPACE, SUPER);
    row.map_or(String::new(), |row| format!("a large file takes {:.3} of its bytes (paper: 1.01)", row.ratio))
}
