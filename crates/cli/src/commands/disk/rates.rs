//! The requests to a disk per second, between two reports about it.

use std::time::{Duration, Instant};

use ferrite_daemon::disks::{DiskReport, OpenReport};
use serde::Serialize;

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

/// A disk, with its rates from the second report on.
#[derive(Serialize)]
pub struct WatchedDisk {
    /// The report about the disk.
    #[serde(flatten)]
    pub disk: DiskReport,
    /// The current requests to the disk per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Rates>,
}

/// The last report and its time.
#[derive(Default)]
pub struct Watch(Option<(Instant, OpenReport)>);

impl Watch {
    /// Adds the rates since the last report to `disk`, which was reported at `now`.
    pub fn look(&mut self, disk: DiskReport, now: Instant) -> WatchedDisk {
        let last = self.0.take().zip(disk.open.as_ref());
        let per_second = last.and_then(|((then, before), after)| Rates::between(&before, after, now - then));
        self.0 = disk.open.clone().map(|open| (now, open));
        WatchedDisk { disk, per_second }
    }
}

impl Rates {
    /// Returns `None` if the counts show that the disk was closed and opened in between.
    fn between(before: &OpenReport, after: &OpenReport, passed: Duration) -> Option<Self> {
        let seconds = passed.as_secs_f64();
        let rate = |before: u64, after: u64| Some(after.checked_sub(before)? as f64 / seconds);
        let durable = |open: &OpenReport| open.flushes + open.fua;
        Some(Self {
            reads: rate(before.reads, after.reads)?,
            read_bytes: rate(before.read_bytes, after.read_bytes)?,
            writes: rate(before.writes, after.writes)?,
            written_bytes: rate(before.written_bytes, after.written_bytes)?,
            durable: rate(durable(before), durable(after))?,
        })
        .filter(|_| seconds > 0.0)
    }

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
