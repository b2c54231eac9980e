//! How media here compare with the paper's.

use super::field::{HDD, LOOP, OURS, OWN, SSD};
use crate::report::Report;
use crate::verdict::{figure, join, range};

/// The line.
pub fn of(report: &Report, notes: Vec<String>) -> String {
    let mut parts = vec![database(report), developer(report), of_all(report), memory(report)];
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

fn ratio(report: &Report, case: &str, subject: &str) -> Option<String> {
    report.row(case, subject).map(|row| figure(row.ratio))
}

fn database(report: &Report) -> String {
    let (Some(hdd), Some(ssd)) = (ratio(report, "tpcc", HDD), ratio(report, "tpcc", SSD)) else { return String::new() };
    let own = ratio(report, "tpcc", OWN).map_or(String::new(), |own| format!(", on this machine's disk {own}"));
    format!(
        "tpcc takes {hdd} times as long on the simulated hard disk as on ours (paper: 110), on the SSD {ssd} (5.7){own}"
    )
}

fn developer(report: &Report) -> String {
    ratio(report, "devel", HDD).map_or(String::new(), |hdd| format!("devel {hdd} times on the hard disk (1.8)"))
}

fn of_all(report: &Report) -> String {
    let of = |subject: &str| range(report, |row| row.unit == "s" && row.subject == subject);
    let (Some(hdd), Some(ssd)) = (of(HDD), of(SSD)) else { return String::new() };
    format!(
        "over all applications {hdd} on the hard disk, {ssd} on the SSD: what mostly computes gains little, as in the paper"
    )
}

/// Beside what else is memory.
fn memory(report: &Report) -> String {
    let of = |subject: &str| range(report, |row| row.unit == "s" && row.subject == subject);
    let served = range(report, |row| row.unit == "s" && ![OURS, LOOP, OWN, SSD, HDD].contains(&row.subject.as_str()));
    let served = served.map_or(String::new(), |range| format!(", on what NBD servers keep in memory {range}"));
    let Some(kernel) = of(LOOP) else { return String::new() };
    format!(
        "on the kernel's loop device on tmpfs, which promises nothing and needs no second trip through the kernel, {kernel} \
         times{served}"
    )
}
