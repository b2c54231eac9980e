//! How well the emulation of speeds keeps to what it is asked for, measured.

use super::{Pace, Speed, Ticks};
use crate::paced::Paced;
use crate::{Guard, MapOptions, Mapped, Memory, Result, Scheme, Span};

/// Accesses are timed in batches of at least this long, so that reading the clock counts for nothing.
const BATCH_NS: f64 = 200_000.0;
/// Batches of each case.
const BATCHES: usize = 15;

const LATENCIES_NS: [u64; 9] = [100, 200, 500, 1000, 3000, 10_000, 30_000, 100_000, 1_000_000];
const BANDWIDTHS_MB_S: [u64; 8] = [50, 100, 200, 500, 1000, 2000, 5000, 10_000];
const LINE: usize = 64;
const PAGE: usize = 4 << 10;
const LARGE: usize = 256 << 10;

/// What is slowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Loads.
    Read,
    /// Stores.
    Write,
}

/// One speed: what it asks of an access, and what was achieved.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy {
    /// What was slowed.
    pub direction: Direction,
    /// The speed asked for.
    pub speed: Speed,
    /// Bytes of each access.
    pub bytes: usize,
    /// What an access should take, in ns.
    pub asked_ns: f64,
    /// What it took in the fastest of several batches, in ns. What else runs on the machine makes batches longer and
    /// none shorter, so this is the emulation's own.
    pub achieved_ns: f64,
    /// What it took in the middle one of the batches, in ns: with what else ran meanwhile.
    pub typical_ns: f64,
}

impl Pace {
    /// Asks for latencies from 100 ns to 1 ms, bandwidths from 50 MB/s to 10 GB/s and both together, and measures by
    /// the clock what comes of each on this machine now. Takes about a second.
    ///
    /// # Errors
    /// Where there is no memory to measure on.
    pub fn accuracy<T: Ticks + Copy>(ticks: T, clock_ns: impl Fn() -> u64) -> Result<Vec<Accuracy>> {
        let options =
            MapOptions { guard: Guard::None, name: "the memory to measure on".into(), ..MapOptions::default() };
        let memory = Mapped::anonymous(LARGE as u64, &options)?;
        memory.populate(Span::new(0, LARGE as u64))?;
        let mut found = Vec::new();
        for direction in [Direction::Read, Direction::Write] {
            for (speed, bytes) in asked() {
                let pace = match direction {
                    Direction::Read => Self { read: speed, ..Self::default() },
                    Direction::Write => Self { write: speed, ..Self::default() },
                };
                let asked = Asked { direction, speed, bytes };
                found.push(asked.measure(&Paced::new(&memory, pace, ticks)?, &clock_ns));
            }
        }
        Ok(found)
    }
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

struct Asked {
    direction: Direction,
    speed: Speed,
    bytes: usize,
}

impl Asked {
    fn measure(&self, memory: &dyn Memory, clock_ns: &impl Fn() -> u64) -> Accuracy {
        let Self { direction, speed, bytes } = *self;
        let asked_ns = speed.absolute_ns(bytes as u64);
        let count = (BATCH_NS / asked_ns).ceil() as u32;
        let mut buffer = vec![1; bytes];
        let mut batch = || {
            let start_ns = clock_ns();
            for i in 0..count {
                let at = (i as usize * bytes % LARGE) as u64;
                match direction {
                    Direction::Read => memory.load(at, &mut buffer),
                    Direction::Write => memory.store(at, &buffer, Scheme::Nt),
                }
            }
            (clock_ns() - start_ns) as f64 / f64::from(count)
        };
        batch();
        let mut batches: [f64; BATCHES] = std::array::from_fn(|_| batch());
        batches.sort_by(f64::total_cmp);
        let (achieved_ns, typical_ns) = (batches[0], batches[BATCHES / 2]);
        Accuracy { direction, speed, bytes, asked_ns, achieved_ns, typical_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tsc;

    /// Every case is measured, and none is faster than it was asked to be.
    #[test]
    fn nothing_is_achieved_early() {
        let start = std::time::Instant::now();
        let clock_ns = || start.elapsed().as_nanos() as u64;
        let tsc = match Tsc::calibrate(clock_ns) {
            Ok(tsc) => tsc,
            Err(why) => return println!("skipped: {why}"),
        };
        let (speed, bytes) = (Speed::absolute(3000, 1000), PAGE);
        let mapped = Mapped::anonymous(LARGE as u64, &MapOptions::default()).unwrap();
        for direction in [Direction::Read, Direction::Write] {
            let memory = Paced::new(&mapped, Pace::both(speed), tsc).unwrap();
            let found = Asked { direction, speed, bytes }.measure(&memory, &clock_ns);
            assert_eq!(found.asked_ns, 7096.0);
            assert!(found.achieved_ns >= found.asked_ns && found.typical_ns >= found.achieved_ns, "{found:?}");
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
