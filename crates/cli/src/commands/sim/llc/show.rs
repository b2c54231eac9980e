//! The figures for people: a table and a plot.

use std::fmt::Write as _;
use std::path::Path;

use ferrite_bench as bench;
use ferrite_sim::cache::wear::{Levelling, WearModel};
use ferrite_sim::cache::{PolicyFigures, StudyReport};

use super::super::output::draw;
use crate::outcome::Outcome;
use crate::size;

/// Returns the table of all policies.
pub fn table(report: &StudyReport, memory: &WearModel, bytes: u64, ways: u32) -> String {
    let lru = &report.policies[0];
    let form = report.form.map_or_else(String::new, |form| format!(" ({form})"));
    let StudyReport { trace, accesses, events, .. } = report;
    let cache = format!("{}, {ways} ways", size::show(bytes));
    let mut text = format!("{trace}{form}: {accesses} accesses, {events} events of the last level ({cache})\n\n");
    let levelled = levelled(memory);
    // The study covers both levellings, and this is the other one.
    let other = if memory.levelling == Levelling::None { levelled } else { Levelling::None };
    let other = WearModel { levelling: other, ..*memory };
    let of_lru = other.runs(&lru.writes);
    let _ = writeln!(
        text,
        "{:26} {:>12} {:>7} {:>12} {:>12} {:>7} {:>9} {:>12} {:>7} {:>7} {:>9} {:>6}",
        "policy",
        "read misses",
        "of LRU",
        "write misses",
        "writebacks",
        "of LRU",
        "per line",
        "energy mJ",
        "of LRU",
        "life",
        "levelled",
        "gap"
    );
    for one in &report.policies {
        let life = |levelling| {
            if levelling == other.levelling { life(one, of_lru, &other) } else { one.lifetime_gain }
        };
        let _ = writeln!(
            text,
            "{:26} {:>12} {:>7.3} {:>12} {:>12} {:>7.3} {:>9.2} {:>12.3} {:>7.3} {:>7.2} {:>9.2} {:>6}",
            one.policy,
            one.read_misses,
            over(one.read_misses as f64, lru.read_misses as f64),
            one.write_misses,
            one.writebacks,
            over(one.writebacks as f64, lru.writebacks as f64),
            one.rewrites(),
            one.energy_nj / 1e6,
            over(one.energy_nj, lru.energy_nj),
            life(Levelling::None),
            life(levelled),
            one.gap_closed.map_or("-".into(), |closed| format!("{:.0} %", closed * 100.0)),
        );
    }
    let least = report.bound.writebacks;
    let share = over(least as f64, lru.writebacks as f64);
    let _ = writeln!(text, "{:26} {:>12} {:>7} {:>12} {:>12} {:>7.3}", "bound", "", "", "", least, share);
    let _ = writeln!(
        text,
        "\nlife: runs until a line of memory fails, of LRU's, as it is and under {}; gap: how much of the way from LRU \
         to the bound",
        levelled.name()
    );
    text
}

/// Returns the chosen levelling, or the paper's levelling if the user chose none.
fn levelled(memory: &WearModel) -> Levelling {
    if memory.levelling == Levelling::None { Levelling::RandomizedStartGap } else { memory.levelling }
}

/// Returns the memory's life under a policy, relative to LRU.
fn life(one: &PolicyFigures, of_lru: f64, memory: &WearModel) -> f64 {
    let own = memory.runs(&one.writes);
    if own.is_infinite() { 1.0 } else { own / of_lru }
}

fn over(one: f64, other: f64) -> f64 {
    if other == 0.0 { 1.0 } else { one / other }
}

/// A function that returns one figure of a policy.
type Of = fn(&PolicyFigures) -> f64;

/// Returns the lower bound of the writebacks of any policy, which the plot draws as a line.
fn bound(lru: u64, least: u64) -> bench::ReportRow {
    let ratio = over(least as f64, lru as f64);
    bench::ReportRow {
        case: "writebacks".into(),
        subject: bench::BOUND.into(),
        unit: "",
        value: least as f64,
        beside: "lru".into(),
        ratio,
        low: ratio,
        high: ratio,
    }
}

/// Draws bars for each policy, relative to LRU.
pub fn plot(report: &StudyReport, path: &Path) -> Outcome {
    let lru = &report.policies[0];
    let cases: [(&str, Of); 4] = [
        ("misses", |one| one.misses() as f64),
        ("writebacks", |one| one.writebacks as f64),
        ("energy", |one| one.energy_nj),
        ("lifetime, levelled", |one| one.lifetime_gain_levelled),
    ];
    let mut rows = Vec::new();
    for (case, of) in cases {
        rows.extend(report.policies.iter().map(|one| {
            let ratio = over(of(one), of(lru));
            bench::ReportRow {
                case: case.into(),
                subject: one.policy.clone(),
                unit: "",
                value: of(one),
                beside: lru.policy.clone(),
                ratio,
                low: ratio,
                high: ratio,
            }
        }));
    }
    rows.push(bound(lru.writebacks, report.bound.writebacks));
    let chart = bench::Chart {
        title: format!("{}, of LRU", report.trace),
        measure: bench::ChartMeasure::Ratio,
        cases: cases.map(|(case, _)| case.into()).to_vec(),
        level: Some(1.0),
    };
    draw("llc", rows, vec![chart], path)
}
