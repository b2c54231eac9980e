//! The accuracy of emulated speeds, by the clock.

use std::time::Instant;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Pace, Paced, Scheme, Span, Speed, Tsc};

use crate::Result;
use crate::report::ReportRow;
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
    for direction in [Direction::Load, Direction::Store] {
        for (speed, bytes) in asked() {
            all.push(SpeedCase { direction, speed, bytes }.measure(&memory, ticks)?);
        }
    }
    session.step("accuracy of the emulation", TOTAL_MS)?;
    session.report.rows.extend(all.iter().flat_map(Achieved::rows));
    Ok(())
}

fn memory() -> Result<Mapped> {
    let options = MapOptions { guard: Guard::None, name: "the memory to measure on".into(), ..MapOptions::default() };
    let memory = Mapped::anonymous(LARGE as u64, &options)?;
    memory.populate(Span::new(0, LARGE as u64))?;
    Ok(memory)
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

/// The direction that is slowed.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Load,
    Store,
}

/// One speed, and by accesses of how many bytes it is measured.
#[derive(Clone, Copy, Debug)]
struct SpeedCase {
    direction: Direction,
    speed: Speed,
    bytes: usize,
}

/// The time of an access, in ns.
#[derive(Debug)]
struct Achieved {
    case: SpeedCase,
    asked_ns: f64,
    /// The mean of the fastest batch. Other programs make batches longer and none shorter, so this is the emulation's own
    /// error.
    least_ns: f64,
    /// The mean of the median batch, with the influence of other programs.
    typical_ns: f64,
}

impl SpeedCase {
    fn name(self) -> String {
        let verb = match self.direction {
            Direction::Load => "load",
            Direction::Store => "store",
        };
        format!("{verb} {} B at {}", self.bytes, self.speed)
    }

    fn measure(self, memory: &Mapped, ticks: Tsc) -> Result<Achieved> {
        let Self { direction, speed, bytes } = self;
        let pace = match direction {
            Direction::Load => Pace { read: speed, ..Pace::default() },
            Direction::Store => Pace { write: speed, ..Pace::default() },
        };
        let memory = Paced::new(memory, pace, ticks)?;
        let asked_ns = speed.absolute_ns(bytes as u64);
        let count = (BATCH_NS / asked_ns).ceil() as u32;
        let mut buffer = vec![1; bytes];
        let mut batch = || {
            let start = Instant::now();
            for i in 0..count {
                let at = (i as usize * bytes % LARGE) as u64;
                match direction {
                    Direction::Load => memory.load(at, &mut buffer),
                    Direction::Store => memory.store(at, &buffer, Scheme::Nt),
                }
            }
            start.elapsed().as_nanos() as f64 / f64::from(count)
        };
        batch();
        let mut batches: [f64; BATCHES] = std::array::from_fn(|_| batch());
        batches.sort_by(f64::total_cmp);
        Ok(Achieved { case: self, asked_ns, least_ns: batches[0], typical_ns: batches[BATCHES / 2] })
    }
}

impl Achieved {
    fn rows(&self) -> [ReportRow; 2] {
        let row = |subject: &str, value: f64, typical: f64| {
            let high = typical / self.asked_ns;
            ReportRow {
                unit: "ns",
                high,
                ..ReportRow::once(self.case.name(), subject, value, ASKED, value / self.asked_ns)
            }
        };
        [row(ASKED, self.asked_ns, self.asked_ns), row(ACHIEVED, self.least_ns, self.typical_ns)]
    }
}

#[cfg(test)]
mod tests;
