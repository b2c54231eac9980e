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

/// A speed that was asked for, and what came of it.
struct Slowest {
    verb: &'static str,
    asked: f64,
    got: Ratios,
}

fn in_process(report: &Report) -> String {
    let slowest = |verb, case: &'static str, times: &[f64]| {
        let asked = *times.last()?;
        let name = format!("{asked}x");
        let got = range(report, |row| row.case.starts_with(case) && row.subject == name)?;
        Some(Slowest { verb, asked, got })
    };
    let found = [slowest("reads", "RD", &READS), slowest("writes", "WR", &WRITES)];
    let found: Vec<Slowest> = found.into_iter().flatten().collect();
    let Some(most) = found.iter().map(|one| one.got.most / one.asked).reduce(f64::max) else { return String::new() };
    let told: Vec<String> =
        found.iter().map(|Slowest { verb, asked, got }| format!("{verb} of {asked}x take {got} times")).collect();
    let why = if most > 1.1 {
        format!(", and a copy after a pause takes up to {} times as long as one of many in a row", figure(most))
    } else {
        String::new()
    };
    format!(
        "in process {}: relative speeds multiply what each copy took, not the rest of a request{why}",
        told.join(", ")
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
