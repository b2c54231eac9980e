//! Recording the crash points and images that each exploration tried, for the ledger that the gate compares.

use std::fs::OpenOptions;
use std::io::Write;

use crate::report::CrashReport;

/// Appends one line about `report` to the file in FERRITE_EXPLORATIONS, if the variable is set. The line has the name
/// of the thread, which is the test's path, then crash points, images, and 1 if a failure was found.
///
/// # Panics
/// Panics if the file cannot be written, because the ledger would then miss an exploration.
pub(crate) fn record(report: &CrashReport) {
    let Some(path) = std::env::var_os("FERRITE_EXPLORATIONS") else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("unnamed");
    let line = format!("{test} {} {} {}\n", report.points, report.images, u8::from(report.failure.is_some()));
    let file = OpenOptions::new().append(true).create(true).open(&path);
    let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("FERRITE_EXPLORATIONS={}: {error}", path.display()));
}
