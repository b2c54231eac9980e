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
mod tests {
    use super::*;

    fn disk(reads: u64, written_bytes: u64) -> DiskReport {
        let open = serde_json::json!({
            "in_use": true, "serving": ferrite_daemon::disks::Serving::default(), "used_bytes": 0, "unsaved_bytes": null,
            "stages": null, "volatile_cache": false, "reads": reads, "read_bytes": reads * 512, "writes": 4,
            "written_bytes": written_bytes, "flushes": 3, "fua": reads, "trims": 0, "zeroings": 0, "errors": 0,
        });
        let disk = serde_json::json!({
            "name": "d", "size_bytes": 0, "sector_bytes": 512, "thin": false, "checksum": false, "space_bytes": 0,
            "reached_at": [], "open": open,
        });
        serde_json::from_value(disk).expect("a report")
    }

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let (mut watch, begun) = (Watch::default(), Instant::now());
        assert_eq!(watch.look(disk(10, 0), begun).per_second, None, "one look tells no rate");
        let then = begun + Duration::from_millis(500);
        let rates = watch.look(disk(30, 1 << 20), then).per_second.expect("two looks");
        let expected =
            Rates { reads: 40.0, read_bytes: 20_480.0, writes: 0.0, written_bytes: 2_097_152.0, durable: 40.0 };
        assert_eq!(rates, expected);
        assert_eq!(rates.show(), "  now 40 reads/s of 20 KiB/s, 0 writes/s of 2 MiB/s, 40 flushes/s\n");
        let anew = watch.look(disk(5, 0), then + Duration::from_secs(1));
        assert_eq!(anew.per_second, None, "it was opened anew");
        let idle = watch.look(disk(5, 0), then + Duration::from_secs(2)).per_second.expect("two looks");
        assert_eq!((idle.reads, idle.durable), (0.0, 0.0));
    }
}
