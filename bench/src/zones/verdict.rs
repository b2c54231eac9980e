//! How files by records here compare with the paper's.

use super::crowd;
use super::field::{
    BARE, BARE_APPEND, CACHED, EXT4, EXT4_CACHED, HOLLOW, LIBRARY, MOUNT, RAMFS, RUN, TMPFS, TMPFS_HUGE, XFS_CACHED,
};
use crate::report::{Report, Row};
use crate::verdict::{Ratios, figure, join};

/// The case of new files.
const FIRST_WRITE: &str = "write 4K";

/// The line.
pub fn of(report: &Report, notes: Vec<String>) -> String {
    let mut parts =
        vec![data(report), bare(report), hollow(report), appended(report), large(report), names(report), mount(report)];
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

/// How `subject` compares with tmpfs, and with it in huge pages, in small writes and in small reads.
fn beside_tmpfs(report: &Report, subject: &str) -> Option<String> {
    let pair = |verb: &'static str| {
        let plain = times(report, (subject, TMPFS), |row| is_small(row, verb))?;
        let huge = times(report, (subject, TMPFS_HUGE), |row| is_small(row, verb));
        Some(huge.map_or(format!("{plain}"), |huge| format!("{plain} ({huge})")))
    };
    let (writes, reads) = (pair("write")?, pair("read")?);
    Some(format!("{subject} {writes} in writes and {reads} in reads"))
}

fn data(report: &Report) -> String {
    let told = |subject| beside_tmpfs(report, subject);
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

/// What the machine allows, and how much of it there is: so a target that is missed is seen to be ours or the machine's.
fn bare(report: &Report) -> String {
    let Some(allowed) = beside_tmpfs(report, BARE) else { return String::new() };
    let told = |subject| {
        let is_first = |row: &Row| row.case == FIRST_WRITE;
        let first = times(report, (subject, BARE_APPEND), is_first)?;
        let over = times(report, (subject, BARE), |row| is_small(row, "write") && !is_first(row))?;
        let reads = times(report, (subject, BARE), |row| is_small(row, "read"))?;
        Some(format!("{subject} has {first} of that, and {over} of the copy written over and {reads} in reads"))
    };
    let beside = |other| times(report, (BARE_APPEND, other), |row| row.case == FIRST_WRITE);
    let huge = beside(TMPFS_HUGE).map_or(String::new(), |huge| format!(" ({huge})"));
    let first = beside(TMPFS).map_or(String::new(), |plain| {
        format!(" and, where a size with a fence of its own goes behind each, {plain}{huge} in first writes")
    });
    let shares: Vec<String> = [LIBRARY, RUN].into_iter().filter_map(told).collect();
    let shared = if shares.is_empty() { String::new() } else { format!(": {}", shares.join(", ")) };
    format!("this machine allows a {allowed}{first}{shared}")
}

/// What the kernel allows of a mount whose writes it keeps back, and how much of it there is.
fn hollow(report: &Report) -> String {
    let Some(allowed) = beside_tmpfs(report, HOLLOW) else { return String::new() };
    let over = |verb| times(report, (CACHED, HOLLOW), |row| is_small(row, verb));
    let (Some(writes), Some(reads)) = (over("write"), over("read")) else { return String::new() };
    let own: Vec<String> =
        [EXT4_CACHED, XFS_CACHED].into_iter().filter_map(|subject| beside_tmpfs(report, subject)).collect();
    let own =
        if own.is_empty() { String::new() } else { format!(", and its own on disks of memory: {}", own.join(", ")) };
    format!(
        "the kernel allows a {allowed}, which is a cached mount whose server keeps nothing: {CACHED} has {writes} of that \
         in writes and {reads} in reads{own}"
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Machine;
    use crate::report::rows;
    use crate::rounds::Series;

    fn report(rows: Vec<Row>) -> Report {
        let (machine, verdict) = (Machine::here(), String::new());
        Report { experiment: "zones", machine, rows, paper: vec![], verdict, charts: vec![] }
    }

    /// Where a mount that keeps nothing is no faster, what is missing to tmpfs is the kernel's.
    #[test]
    fn the_line_tells_what_the_kernel_allows_of_a_cached_mount() {
        let rows_of = |case: &str| {
            let rates = [(TMPFS, 100.0), (HOLLOW, 80.0), (CACHED, 76.0), (EXT4_CACHED, 85.0)];
            let series = rates.map(|(name, rate)| Series { name: name.into(), values: vec![rate] });
            rows(case, "MB/s", &series, &series[0])
        };
        assert_eq!(
            hollow(&report(["write 4K", "read 4K"].into_iter().flat_map(rows_of).collect())),
            "the kernel allows a hollow cached 0.80 in writes and 0.80 in reads, which is a cached mount whose server \
             keeps nothing: mount --cached has 0.95 of that in writes and 0.95 in reads, and its own on disks of memory: \
             ext4 cached 0.85 in writes and 0.85 in reads"
        );
        assert_eq!(hollow(&report(Vec::new())), "");
    }

    /// A quarter of the bare copy on a machine that allows four times tmpfs is ours to mend, and is told as that.
    #[test]
    fn the_line_tells_what_is_ours_and_what_is_the_machines() {
        let part = |case: &str| match case {
            FIRST_WRITE => 100.0,
            case if case.contains("read") => 360.0,
            _ => 300.0,
        };
        let rows_of = |case: &str| {
            let rates =
                [(TMPFS, 100.0), (TMPFS_HUGE, 200.0), (BARE, 400.0), (BARE_APPEND, 250.0), (LIBRARY, part(case))];
            let taken = rates.into_iter().filter(|(name, _)| *name != BARE_APPEND || case == FIRST_WRITE);
            let series: Vec<Series> =
                taken.map(|(name, rate)| Series { name: name.into(), values: vec![rate] }).collect();
            rows(case, "MB/s", &series, &series[0])
        };
        let cases = [FIRST_WRITE, "re-write 4K", "random write 4K", "read 4K", "re-read 4K", "random read 4K"];
        let rows = cases.into_iter().flat_map(rows_of).collect();
        let report = report(rows);
        assert_eq!(
            bare(&report),
            "this machine allows a bare copy 4.0 (2.00) in writes and 4.0 (2.00) in reads and, where a size with a fence \
             of its own goes behind each, 2.50 (1.25) in first writes: library has 0.40 of that, and 0.75 of the copy \
             written over and 0.90 in reads"
        );
    }
}
