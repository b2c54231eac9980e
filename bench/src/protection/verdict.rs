//! One line on how this run compares with the paper.

use ferrite_memory::Guard;

use super::atomic;
use super::copies::{BARE, KEYED};
use super::recovery;
use super::served::{self, BOUND, OURS, PEERS};
use crate::report::{Report, Row};

/// The line.
pub fn of(report: &Report) -> String {
    let mut parts = vec![
        page_table(report),
        private(report),
        keys(report),
        strict(report),
        whole_sectors(report),
        nbd(report),
        killed(report),
    ];
    parts.extend(report.machine.complaints());
    parts.retain(|part| !part.is_empty());
    parts.join("; ")
}

/// The smallest and the largest ratio of the rows that `wanted` picks.
fn range(report: &Report, wanted: impl Fn(&Row) -> bool) -> Option<(f64, f64)> {
    let ratios: Vec<f64> = report.rows.iter().filter(|row| wanted(row)).map(|row| row.ratio).collect();
    let least = ratios.iter().copied().reduce(f64::min)?;
    Some((least, ratios.into_iter().fold(least, f64::max)))
}

fn in_process(row: &Row, subject: &str) -> bool {
    row.subject.starts_with(subject) && row.beside == BARE && row.unit == "MB/s"
}

fn page_table(report: &Report) -> String {
    let slower = |bytes: &str| {
        let of = |row: &Row| in_process(row, "pagetable") && row.case.starts_with("WR") && row.case.contains(bytes);
        range(report, of).map(|(least, _)| format!("up to {:.1} times slower at {}", 1.0 / least, bytes.trim()))
    };
    let parts: Vec<String> = [" 4K", " 256K"].into_iter().filter_map(slower).collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("naive page table: writes {} (paper: 18)", parts.join(", "))
}

fn private(report: &Report) -> String {
    let Some((least, most)) = range(report, |row| in_process(row, "private")) else { return String::new() };
    let why = if most < 0.8 { ", for in user space each mapping is two system calls and a TLB shootdown" } else { "" };
    format!("private mapping: {least:.2} to {most:.2} of bare (paper: 0.85 to 0.90){why}")
}

fn keys(report: &Report) -> String {
    let of_alone = range(report, |row| row.beside == KEYED && row.unit == "MB/s");
    let alone = of_alone.map_or(String::new(), |(least, most)| {
        format!(" and {least:.3} to {most:.3} of a copy in the same window without a disk")
    });
    match range(report, |row| in_process(row, "keys") && row.subject == "keys") {
        Some((least, most)) => format!("keys: {least:.3} to {most:.3} of bare{alone}"),
        None if Guard::Keys.ensure_available().is_err() => "keys: this processor has none".into(),
        None => String::new(),
    }
}

fn strict(report: &Report) -> String {
    let reads = |row: &Row| in_process(row, "keys=strict") && row.case.starts_with("RD") && row.case.contains(" 4K");
    range(report, reads).map_or(String::new(), |(least, _)| format!("denying reads too: 4K reads down to {least:.2}"))
}

fn whole_sectors(report: &Report) -> String {
    let row = report.rows.iter().find(|row| row.case == atomic::CASES[0] && row.subject != BARE);
    row.map_or(String::new(), |row| format!("whole sectors: a 4K write {:.2} times a bare copy-on-write", row.ratio))
}

fn nbd(report: &Report) -> String {
    let is_there = |peer: &&&str| report.rows.iter().any(|row| row.subject == **peer);
    let missing: Vec<&str> = PEERS.iter().filter(|peer| !is_there(peer)).copied().collect();
    let note =
        if missing.is_empty() { String::new() } else { format!(" (not on this machine: {})", missing.join(", ")) };
    let cases: Vec<String> = served::loads().map(|load| served::case(&load)).collect();
    let ours = |row: &Row| row.subject == OURS && row.beside != OURS && cases.contains(&row.case);
    let bound = bounds(report);
    match range(report, ours) {
        Some((least, most)) => format!("NBD: {least:.2} to {most:.2} times the better peer{bound}{note}"),
        None if report.rows.iter().any(|row| row.subject == OURS && cases.contains(&row.case)) => {
            format!("NBD: no peer{note}")
        }
        None => String::new(),
    }
}

/// What is possible at 256K: where nothing is copied but what the client itself copies into or out of the socket and the
/// server out of it, and for writes where the memory is copied once besides, as fast as the bare copy, which takes its
/// time before or after.
fn bounds(report: &Report) -> String {
    let is_bound = |row: &&Row| row.subject == BOUND && row.case.contains("256K") && row.beside != OURS;
    let with_copy = |row: &Row| {
        let (load, _) = row.case.strip_prefix("NBD ")?.rsplit_once(' ')?;
        let alone = format!("{load} Q1");
        let bare = report.rows.iter().find(|bare| in_process(bare, BARE) && bare.case == alone)?;
        Some(row.ratio / (1.0 + row.value / bare.value))
    };
    let rows: Vec<&Row> = report.rows.iter().filter(is_bound).collect();
    let list = |ratios: Vec<f64>| ratios.iter().map(|ratio| format!("{ratio:.2}")).collect::<Vec<_>>().join(", ");
    if rows.is_empty() {
        return String::new();
    }
    let nothing = list(rows.iter().map(|row| row.ratio).collect());
    let once = list(rows.iter().filter(|row| row.case.contains("WR")).filter_map(|row| with_copy(row)).collect());
    let once = if once.is_empty() { once } else { format!(", and where writes are copied once {once}") };
    let cases = rows.iter().map(|row| row.case.as_str()).collect::<Vec<_>>().join(", ");
    format!(" (at 256K a server that copies nothing reaches {nothing}{once}: {cases})")
}

fn killed(report: &Report) -> String {
    match report.rows.iter().find(|row| row.case == recovery::CASE) {
        Some(row) => format!("back {:.0} ms after a kill", row.value),
        None => String::new(),
    }
}
