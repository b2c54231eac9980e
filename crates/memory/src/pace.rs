//! Emulated speeds of media (pmbd.txt section V.C): how much longer than DRAM an access takes.
//!
//! A speed is given in two ways, which can be combined; the longer of the two counts:
//!
//! - relative, as in the paper: an access takes `times` the duration of its copy on this machine, measured in cycles
//!   (`rdsx`, `wrsx`);
//! - absolute: an access of n bytes takes `latency + n / bandwidth` (`rdlat`, `wrlat`, `rdbw`, `wrbw`). Latencies of
//!   several threads pass side by side. All threads share the bandwidth, with one queue for reads and one for writes:
//!   an access that comes while it is busy waits until the earlier ones are through.
//!
//! Each duration includes the access's own copy. A medium faster than this machine's memory cannot be emulated.

use std::fmt;

use crate::{Error, Result};

mod pipe;
mod tsc;

pub(crate) use pipe::StorePipe;
pub use tsc::Tsc;

/// A counter that goes up evenly with time, the same on every processor.
pub trait Ticks: Send + Sync {
    /// The count now.
    fn now(&self) -> u64;

    /// The count once what was loaded before has arrived.
    fn now_after_copy(&self) -> u64;

    /// Returns when the count has reached `tick`.
    fn wait_until(&self, tick: u64);

    /// Ticks in a nanosecond.
    fn per_ns(&self) -> f64;

    /// What [`Ticks::now`] and [`Ticks::now_after_copy`] differ by with nothing between them.
    fn reading(&self) -> u64;
}

/// The speed of a medium. The default is DRAM's own.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pace {
    /// Of loads.
    pub read: Speed,
    /// Of stores and zeroing, whichever scheme they go by.
    pub write: Speed,
}

/// The speed of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    /// How many times as long as on DRAM; from 1.
    pub times: f64,
    /// What an access of no bytes would take, in ns.
    pub latency_ns: u64,
    /// MB/s (of 1,000,000 bytes) of all accesses together; not bound where `None`.
    pub bandwidth_mb_s: Option<u64>,
}

const TIMES_MAX: f64 = 100_000.0;
const LATENCY_MAX_NS: u64 = 10_000_000_000;

impl Default for Speed {
    fn default() -> Self {
        Self::DRAM
    }
}

impl Speed {
    /// Nothing is added.
    pub const DRAM: Self = Self { times: 1.0, latency_ns: 0, bandwidth_mb_s: None };

    /// `times` as long as DRAM.
    pub const fn relative(times: f64) -> Self {
        Self { times, ..Self::DRAM }
    }

    /// So long for the first byte, so fast from there.
    pub const fn absolute(latency_ns: u64, bandwidth_mb_s: u64) -> Self {
        Self { latency_ns, bandwidth_mb_s: Some(bandwidth_mb_s), ..Self::DRAM }
    }

    /// Returns the least duration of an access of `bytes`, in ns, if it waits for no other access.
    pub fn absolute_ns(&self, bytes: u64) -> f64 {
        self.latency_ns as f64 + self.bandwidth_mb_s.map_or(0.0, |rate| bytes as f64 * 1000.0 / rate as f64)
    }

    fn check(&self, what: &str) -> Result<()> {
        let refuse = |why: String| Err(Error::Unsupported(format!("emulated speed of {what}: {why}")));
        if !(1.0..=TIMES_MAX).contains(&self.times) {
            return refuse(format!("{} times as long as DRAM: give 1 to {TIMES_MAX}", self.times));
        }
        if self.latency_ns > LATENCY_MAX_NS {
            return refuse(format!("{} ns: give at most {LATENCY_MAX_NS}", self.latency_ns));
        }
        if self.bandwidth_mb_s == Some(0) {
            return refuse("0 MB/s: give at least 1".into());
        }
        Ok(())
    }
}

impl Pace {
    /// Media by name. Those of the paper's table I are relative to the 60 ns of its DRAM, by the slow end of their
    /// range, so that no result is better than the medium's:
    ///
    /// | name | read | write | from |
    /// |---|---|---|---|
    /// | dram | 60 ns: 1x | 60 ns: 1x | pmbd.txt table I |
    /// | pcm | 50-85 ns: 1.42x | 150 ns - 1 us: 16.7x | pmbd.txt table I |
    /// | memristor | 100 ns: 1.67x | 100 ns: 1.67x | pmbd.txt table I |
    /// | stt-ram | 6 ns: 1x | 13 ns: 1x | pmbd.txt table I; DRAM cannot be made faster, so as DRAM |
    /// | nvdimm | 1x | 1x | DRAM that is saved to flash when the power fails, at DRAM's speed (vpm.txt section VI) |
    /// | optane | 305 ns, 6600 MB/s | 90 ns, 2300 MB/s | one module, random, idle: Izraelevitz et al. 2019 (arXiv 1903.05714) |
    /// | cxl | 250 ns, 22,000 MB/s | 250 ns, 22,000 MB/s | DRAM behind 8 lanes of PCIe 5.0 |
    ///
    /// For cxl: cards were measured at 2 to 5 times the latency of local DRAM (arXiv 2405.14209), 2.5 of 100 ns here;
    /// 8 lanes at 32 GT/s carry 31.5 GB/s, of which flits of 64 in 68 bytes with three slots of data in four leave 22.
    pub const PRESETS: [(&str, Self); 7] = [
        ("dram", Self::both(Speed::DRAM)),
        ("pcm", Self { read: Speed::relative(1.42), write: Speed::relative(16.7) }),
        ("memristor", Self::both(Speed::relative(1.67))),
        ("stt-ram", Self::both(Speed::DRAM)),
        ("nvdimm", Self::both(Speed::DRAM)),
        ("optane", Self { read: Speed::absolute(305, 6600), write: Speed::absolute(90, 2300) }),
        ("cxl", Self::both(Speed::absolute(250, 22_000))),
    ];

    /// One speed for both directions.
    pub const fn both(speed: Speed) -> Self {
        Self { read: speed, write: speed }
    }

    /// The medium called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::PRESETS.iter().find(|(known, _)| *known == name).map(|(_, pace)| *pace)
    }

    /// Whether it adds nothing to DRAM, so that nothing need be wrapped.
    pub fn is_dram(&self) -> bool {
        *self == Self::default()
    }

    /// Refuses what cannot be emulated.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for less than DRAM's time, no bandwidth at all, and figures beyond all media.
    pub fn check(&self) -> Result<()> {
        self.read.check("reads")?;
        self.write.check("writes")
    }
}

impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.times > 1.0).then(|| format!("{}x DRAM", self.times)),
            (self.latency_ns > 0).then(|| format!("{} ns", self.latency_ns)),
            self.bandwidth_mb_s.map(|rate| format!("{rate} MB/s")),
        ];
        let limits: Vec<String> = parts.into_iter().flatten().collect();
        if limits.is_empty() { f.write_str("as DRAM") } else { f.write_str(&limits.join(", ")) }
    }
}

impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reads {}; writes {}", self.read, self.write)
    }
}

#[cfg(test)]
mod tests;
