//! How well the emulation of speeds keeps to what it is asked for, by the clock.

use std::time::Instant;

use ferrite_memory::{Guard, MapOptions, Mapped, Memory, Pace, Paced, Scheme, Span, Speed, Tsc};

use crate::Result;
use crate::report::{Measure, Row};
use crate::session::Session;

/// Milliseconds it takes, about.
pub const TOTAL_MS: u64 = 1500;
/// What is achieved stands beside it.
pub const ASKED: &str = "asked";
/// What came of it.
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

/// Asks for latencies from 100 ns to 1 ms, bandwidths from 50 MB/s to 10 GB/s and both together, and measures what comes of
/// each on this machine now.
pub fn measure(session: &mut Session<'_>, ticks: Tsc) -> Result<()> {
    if !session.options.wants(ASKED) && session.options.only.is_some() {
        return Ok(());
    }
    let memory = memory()?;
    let mut all = Vec::new();
    for direction in [Direction::Load, Direction::Store] {
        for (speed, bytes) in asked() {
            all.push(Case { direction, speed, bytes }.measure(&memory, ticks)?);
        }
    }
    session.steps.step("accuracy of the emulation", TOTAL_MS)?;
    session.report.rows.extend(all.iter().flat_map(Achieved::rows));
    let cases = all.iter().map(|it| it.case.name()).collect();
    session.chart("The emulation: achieved beside asked", Measure::Ratio, cases);
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

/// What is slowed.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Load,
    Store,
}

/// One speed, and by accesses of how many bytes it is measured.
#[derive(Clone, Copy, Debug)]
struct Case {
    direction: Direction,
    speed: Speed,
    bytes: usize,
}

/// What an access took, in ns.
#[derive(Debug)]
struct Achieved {
    case: Case,
    asked_ns: f64,
    /// In the fastest of several batches. What else runs on the machine makes batches longer and none shorter, so this is
    /// the emulation's own.
    least_ns: f64,
    /// In the middle one of the batches: with what else ran meanwhile.
    typical_ns: f64,
}

impl Case {
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
    fn rows(&self) -> [Row; 2] {
        let row = |subject: &str, value: f64, typical: f64| Row {
            case: self.case.name(),
            subject: subject.into(),
            unit: "ns",
            value,
            beside: ASKED.into(),
            ratio: value / self.asked_ns,
            low: value / self.asked_ns,
            high: typical / self.asked_ns,
        };
        [row(ASKED, self.asked_ns, self.asked_ns), row(ACHIEVED, self.least_ns, self.typical_ns)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every case is measured, and none is faster than it was asked to be.
    #[test]
    fn nothing_is_achieved_early() {
        let start = Instant::now();
        let tsc = match Tsc::calibrate(|| start.elapsed().as_nanos() as u64) {
            Ok(tsc) => tsc,
            Err(why) => return println!("skipped: {why}"),
        };
        let (speed, memory) = (Speed::absolute(3000, 1000), memory().expect("there is memory"));
        for direction in [Direction::Load, Direction::Store] {
            let found = Case { direction, speed, bytes: PAGE }.measure(&memory, tsc).expect("a pace");
            assert_eq!(found.asked_ns, 7096.0);
            assert!(found.least_ns >= found.asked_ns && found.typical_ns >= found.least_ns, "{found:?}");
        }
    }

    /// The range that is promised is the range that is measured.
    #[test]
    fn the_cases_span_the_range() {
        let latencies: Vec<u64> = asked().map(|(speed, _)| speed.latency_ns).filter(|ns| *ns > 0).collect();
        let rates: Vec<u64> = asked().filter_map(|(speed, _)| speed.bandwidth_mb_s).collect();
        assert_eq!((latencies.iter().min(), latencies.iter().max()), (Some(&100), Some(&1_000_000)));
        assert_eq!((rates.iter().min(), rates.iter().max()), (Some(&50), Some(&10_000)));
    }
}
