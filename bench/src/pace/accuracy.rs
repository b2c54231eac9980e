//! The accuracy of emulated speeds, by the clock.

use std::time::Instant;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Pace, Paced, Scheme, Speed, Tsc};

use crate::Result;
use crate::report::ReportRow;
use crate::scratch::touched;
use crate::session::BenchSession;

/// Expected milliseconds of measuring.
const TOTAL_MS: u64 = 1500;
/// The subject of the speed that was asked for.
pub const ASKED: &str = "asked";
/// The subject of the speed that was measured.
pub const ACHIEVED: &str = "achieved";

/// Accesses are timed in batches of at least this long, so that reading the clock counts for nothing.
const BATCH_NS: f64 = 200_000.0;
/// Batches of each case.
const BATCHES: usize = 15;

const LATENCIES_NS: [u64; 9] = [100, 200, 500, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000];
const BANDWIDTHS_MB_S: [u64; 8] = [50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const LINE: usize = 64;
const PAGE: usize = 4 << 10;
const LARGE: usize = 256 << 10;

/// Emulates latencies from 100 ns to 1 ms, bandwidths from 50 MB/s to 10 GB/s and both together, and measures each on this
/// machine.
pub fn measure(session: &mut BenchSession<'_>, ticks: Tsc) -> Result<()> {
    if !session.options.wants(ASKED) && session.options.only.is_some() {
        return Ok(());
    }
    let memory = memory()?;
    let mut all = Vec::new();
    for stores in [false, true] {
        for (speed, bytes) in asked() {
            all.extend(SpeedCase { stores, speed, bytes }.measure(&memory, ticks)?);
        }
    }
    session.step("accuracy of the emulation", TOTAL_MS)?;
    session.report.rows.extend(all);
    Ok(())
}

fn memory() -> Result<Mapped> {
    let options = MapOptions { guard: Guard::None, name: "the memory to measure on".into(), ..MapOptions::default() };
    touched(Mapped::anonymous(LARGE as u64, &options)?)
}

/// The speeds to measure, and by accesses of how many bytes.
fn asked() -> impl Iterator<Item = (Speed, usize)> {
    let latency = |ns| (Speed { latency_ns: ns, ..Speed::DRAM }, LINE);
    let bandwidth = |bytes| move |rate| (Speed { bandwidth_mb_s: Some(rate), ..Speed::DRAM }, bytes);
    let both = [(Speed::absolute(300, 2000), PAGE), (Speed::absolute(10_000, 500), PAGE)];
    let latencies = LATENCIES_NS.into_iter().map(latency);
    let small = BANDWIDTHS_MB_S.into_iter().map(bandwidth(PAGE));
    latencies.chain(small).chain(BANDWIDTHS_MB_S.into_iter().map(bandwidth(LARGE))).chain(both)
}

/// One speed, and by accesses of how many bytes it is measured.
#[derive(Clone, Copy, Debug)]
struct SpeedCase {
    /// Whether stores are slowed rather than loads.
    stores: bool,
    speed: Speed,
    bytes: usize,
}

impl SpeedCase {
    fn name(self) -> String {
        format!("{} {} B at {}", if self.stores { "store" } else { "load" }, self.bytes, self.speed)
    }

    /// Measures the time of an access. The value is the mean of the fastest batch: other programs make batches longer and
    /// none shorter, so that this is the emulation's own error. The range ends at the median batch, with their influence.
    fn measure(self, memory: &Mapped, ticks: Tsc) -> Result<[ReportRow; 2]> {
        let Self { stores, speed, bytes } = self;
        let slowed = |is_slowed| if is_slowed { speed } else { Speed::DRAM };
        let memory = Paced::new(memory, Pace { read: slowed(!stores), write: slowed(stores) }, ticks)?;
        let asked_ns = speed.absolute_ns(bytes as u64);
        let count = (BATCH_NS / asked_ns).ceil() as u32;
        let mut buffer = vec![1; bytes];
        let mut batch = || {
            let start = Instant::now();
            for i in 0..count {
                let at = (i as usize * bytes % LARGE) as u64;
                if stores {
                    memory.store(at, &buffer, Scheme::Nt);
                } else {
                    memory.load(at, &mut buffer);
                }
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        };
        batch();
        let mut batches: [f64; BATCHES] = std::array::from_fn(|_| batch());
        batches.sort_by(f64::total_cmp);
        let row = |subject: &str, ns: f64, typical_ns: f64| {
            let row = ReportRow::once(self.name(), subject, ns, ASKED, ns / asked_ns);
            ReportRow { unit: "ns", high: typical_ns / asked_ns, ..row }
        };
        Ok([row(ASKED, asked_ns, asked_ns), row(ACHIEVED, batches[0], batches[BATCHES / 2])])
    }
}

#[cfg(test)]
mod tests;
