//! How file systems here wear a flash drive, beside what the paper says.

use super::{COST, ERASES, EXT4, FILE_SYSTEMS, Measured, SCHEMES, speed};
use crate::report::{Report, Row};
use crate::verdict::{Ratios, join, range};

/// Page writes a second that a simulation has to reach.
const WANTED_MILLION_A_SECOND: f64 = 5.0;

/// The line.
pub(super) fn of(report: &Report, notes: Vec<String>) -> String {
    let mut parts = vec![erases(report), costs(report), speed(report)];
    if report.rows.iter().any(|row| row.case != speed::CASE) {
        parts.push("the paper draws its figures without numbers; its own file system is not here yet".into());
    }
    parts.retain(|part| !part.is_empty());
    join(report, parts, notes)
}

fn is_of(row: &Row, scheme: &str, measured: &Measured) -> bool {
    row.case.ends_with(&format!(", {scheme}: {}", measured.name))
}

/// Each file system beside ext4.
fn erases(report: &Report) -> String {
    let others = FILE_SYSTEMS.iter().map(|(one, _)| one).filter(|one| one.name != EXT4.name);
    let of = |name: &str, scheme: &str| {
        let wanted = |row: &Row| row.subject == name && row.beside == EXT4.name && is_of(row, scheme, &ERASES);
        range(report, wanted).map(|ratios| format!("{ratios} on {scheme}"))
    };
    let told = others.filter_map(|one| {
        let schemes: Vec<String> = SCHEMES.iter().filter_map(|(scheme, _)| of(one.name, scheme)).collect();
        (!schemes.is_empty()).then(|| format!("{} {}", one.name, schemes.join(" and ")))
    });
    let told: Vec<String> = told.collect();
    if told.is_empty() { String::new() } else { format!("erases beside ext4: {}", told.join(", ")) }
}

/// Pages copied for each erase, over all loads and file systems.
fn costs(report: &Report) -> String {
    let of = |scheme: &str| {
        let values = report.rows.iter().filter(|row| is_of(row, scheme, &COST)).map(|row| row.value);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
        (least <= most).then(|| format!("{} pages with {scheme}", Ratios { least, most }))
    };
    let told: Vec<String> = SCHEMES.iter().filter_map(|(scheme, _)| of(scheme)).collect();
    if told.is_empty() { String::new() } else { format!("copied for each erase: {}", told.join(", ")) }
}

fn speed(report: &Report) -> String {
    let of = |(scheme, _): &(&str, _)| report.row(speed::CASE, scheme).map(|row| format!("{:.1}", row.value));
    let told: Vec<String> = SCHEMES.iter().filter_map(of).collect();
    if told.is_empty() {
        return String::new();
    }
    format!("{} million random writes are simulated a second (wanted: {WANTED_MILLION_A_SECOND})", told.join(" and "))
}
