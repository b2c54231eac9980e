//! How barriers here compare with the paper's.

use ferrite_memory::{Guard, Scheme};

use super::{PEAK, WHOLE, alone, driver_name};
use crate::report::{Report, Row};
use crate::verdict::{figure, join, range};
use crate::write_schemes::name;

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// The line.
pub fn of(report: &Report, pool_bytes: u64, notes: Vec<String>) -> String {
    let mut parts = vec![driver(report), tracked(report), all(report, pool_bytes), applications(report)];
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

fn of_scheme<'a>(report: &'a Report, case: &str, scheme: Scheme) -> Option<&'a Row> {
    report.row(case, &name(Guard::best(), scheme))
}

fn driver(report: &Report) -> String {
    let part = |verb: &'static str, subject: &str| {
        range(report, |row| row.subject == subject && row.beside == PEAK && row.case.starts_with(verb))
    };
    let driver = driver_name();
    let (Some(reads), Some(writes)) = (part("RD", &driver), part("WR", &driver)) else { return String::new() };
    let whole = part("WR", WHOLE).map_or(String::new(), |range| format!(", {range} with whole sectors"));
    format!("the driver keeps {reads} of plain cached reads and {writes} of writes{whole} (paper: 0.85 and 0.75)")
}

fn tracked(report: &Report) -> String {
    let cost = |scheme| of_scheme(report, alone::CASES[1].0, scheme).map(|row| row.value);
    let (Some(nt), Some(tracked)) = (cost(Scheme::Nt), cost(Scheme::Writeback)) else { return String::new() };
    format!(
        "a barrier after 64 writes takes {} us with nt, which has nothing to do, and {} us with tracked write-back: it \
         flushes what was written and not the cache, so it is not wbinvd",
        figure(nt),
        figure(tracked)
    )
}

fn all(report: &Report, pool_bytes: u64) -> String {
    let Some(row) = of_scheme(report, alone::CASES[0].0, Scheme::WritebackAll) else { return String::new() };
    let line_ns = row.value * 1e3 / (pool_bytes as f64 / LINE);
    format!(
        "flushing every line of {} MiB, in place of wbinvd, takes {} ms: {line_ns:.2} ns a clean line",
        pool_bytes >> 20,
        figure(row.value / 1e3)
    )
}

fn applications(report: &Report) -> String {
    let guard = Guard::best();
    let time = |scheme| range(report, |row| row.unit == "s" && row.subject == name(guard, scheme));
    let (Some(nt), Some(tracked), Some(all)) = (time(Scheme::Nt), time(Scheme::Writeback), time(Scheme::WritebackAll))
    else {
        return String::new();
    };
    let database = of_scheme(report, "tpcc", Scheme::WritebackAll);
    let database = database.map_or(String::new(), |row| format!(", tpcc {}", figure(row.ratio)));
    format!(
        "applications with barriers take {nt} times as long as without guard and barriers with nt, {tracked} with tracked \
         write-back, {all} with all lines flushed{database} (paper: nt 1, tpcc with wbinvd 4.1): a flush through the /dev \
         node costs more than its barrier"
    )
}
