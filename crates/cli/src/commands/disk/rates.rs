//! The requests to a disk per second, between two reports about it.

use ferrite_daemon::disks::{DiskReport, OpenReport};
use serde::Serialize;

use crate::commands::watch::Counted;
use crate::size;

/// Requests and bytes per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// Reads per second.
    pub reads: f64,
    /// Bytes read per second.
    pub read_bytes: f64,
    /// Writes per second.
    pub writes: f64,
    /// Bytes written per second.
    pub written_bytes: f64,
    /// Flushes and durable requests per second: those that asked to be durable on return.
    pub durable: f64,
}

impl Counted for DiskReport {
    type Counts = OpenReport;
    type Rates = Rates;

    fn counts(&self) -> Option<&OpenReport> {
        self.open.as_ref()
    }

    fn rates(before: &OpenReport, after: &OpenReport, rate: impl Fn(u64, u64) -> Option<f64>) -> Option<Rates> {
        let durable = |open: &OpenReport| open.flushes + open.fua;
        Some(Rates {
            reads: rate(before.reads, after.reads)?,
            read_bytes: rate(before.read_bytes, after.read_bytes)?,
            writes: rate(before.writes, after.writes)?,
            written_bytes: rate(before.written_bytes, after.written_bytes)?,
            durable: rate(durable(before), durable(after))?,
        })
    }
}

impl Rates {
    /// Returns the rates as a line for people.
    pub fn show(&self) -> String {
        let Self { reads, read_bytes, writes, written_bytes, durable } = *self;
        let [read_bytes, written_bytes] = [read_bytes, written_bytes].map(|bytes| size::show(bytes as u64));
        format!(
            "  now {reads:.0} reads/s of {read_bytes}/s, {writes:.0} writes/s of {written_bytes}/s, {durable:.0} flushes/s\n"
        )
    }
}

#[cfg(test)]
mod tests;
