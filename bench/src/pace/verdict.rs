//! How slower media here compare with the paper's.

use super::accuracy::ACHIEVED;
use super::{READS, WRITES, relative, told};
use crate::report::Report;
use crate::verdict::{Ratios, figure, join, range};

/// The emulation is to be so exact: by this part, or so many ns.
const TOLERANCE: f64 = 0.05;
const TOLERANCE_NS: f64 = 40.0;

/// The line.
pub fn of(report: &Report, notes: Vec<String>) -> String {
    let mut parts = vec![emulation(report), in_process(report), database(report)];
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

fn emulation(report: &Report) -> String {
    let achieved = report.rows.iter().filter(|row| row.subject == ACHIEVED).map(|row| {
        let asked_ns = row.value / row.ratio;
        (row.value - asked_ns).abs() <= TOLERANCE_NS.max(asked_ns * TOLERANCE)
    });
    let (all, close) = achieved.fold((0, 0), |(all, close), is_close| (all + 1, close + u32::from(is_close)));
    if all == 0 {
        return String::new();
    }
    format!("{close} of {all} absolute speeds are met within 5 % or 40 ns")
}

fn in_process(report: &Report) -> String {
    let slowest = |verb: &'static str, times: f64| {
        let name = format!("{times}x");
        range(report, |row| row.case.starts_with(verb) && row.subject == name)
    };
    let (reads, writes) = (slowest("RD", READS[READS.len() - 1]), slowest("WR", WRITES[WRITES.len() - 1]));
    let part =
        |verb: &str, times: f64, got: Option<Ratios>| got.map(|got| format!("{verb} of {times}x take {got} times"));
    let parts = [part("reads", READS[READS.len() - 1], reads), part("writes", WRITES[WRITES.len() - 1], writes)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    format!(
        "{} as long in process, as each copy's own time is multiplied and the rest of a request is not",
        parts.join(", ")
    )
}

fn database(report: &Report) -> String {
    let of = |case: &str, reads: f64, writes: f64| {
        report.row(case, &told(&relative(reads, writes))).map(|row| figure(row.ratio))
    };
    let mut parts = Vec::new();
    if let (Some(reads), Some(worst)) = (of("tpch", 10.0, 1.0), of("tpch", 10.0, 50.0)) {
        parts.push(format!("tpch takes {reads} times as long with reads of 10x, {worst} at worst (paper: 1.36, 1.4)"));
    }
    if let (Some(writes), Some(worst)) = (of("tpcc", 1.0, 50.0), of("tpcc", 10.0, 50.0)) {
        parts.push(format!("tpcc {writes} with writes of 50x, {worst} at worst (paper: 3.6 at worst)"));
    }
    if !parts.is_empty() {
        parts.push("copies are a smaller part of a request through the /dev node than in the paper's driver".into());
    }
    parts.join("; ")
}
