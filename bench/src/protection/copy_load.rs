//! The loads of figures 3 and 8: reads or writes, in sequence or at random places, small or large, one or many.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use crate::Result;
use crate::bare_copy::BareCopy;
use crate::bench_random::BenchRandom;
use crate::copy_buffer::CopyBuffer;
use crate::machine::preemptions;

/// How often a slice is measured at most, until the scheduler did not preempt it.
const TRIES_MAX: usize = 8;

/// A target of reads and writes.
pub trait CopyTarget: Sync {
    /// Reads at byte `at`.
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes at byte `at`; durable on return.
    fn write_at(&self, at: u64, from: &[u8]) -> Result<()>;
}

impl CopyTarget for BareCopy {
    #[inline]
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        BareCopy::read(self, at, into);
        Ok(())
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        BareCopy::write(self, at, from);
        Ok(())
    }
}

impl<D: Disk + ?Sized> CopyTarget for D {
    #[inline]
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(Disk::read(self, at, into)?)
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        Ok(Disk::write(self, at, from, Access::Cached)?)
    }
}

/// A load of the paper.
#[derive(Clone, Copy, Debug)]
pub struct CopyLoad {
    /// Whether requests write rather than read.
    pub writes: bool,
    /// Whether requests go to random places rather than in sequence.
    pub random: bool,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests in flight at once.
    pub depth: usize,
}

impl CopyLoad {
    /// The name in the notation of the paper.
    pub fn name(&self) -> String {
        let verb = if self.writes { "WR" } else { "RD" };
        let pattern = if self.random { "RND" } else { "SEQ" };
        format!("{verb} {pattern} {}K Q{}", self.bytes >> 10, self.depth)
    }
}

/// The offsets of one thread's requests, in bytes.
pub struct CopyPlaces {
    random: Option<BenchRandom>,
    next: u64,
    count: u64,
    bytes: u64,
}

impl CopyPlaces {
    /// Places of `load` on `size` bytes: random ones, or in sequence from a random one.
    pub fn new(load: &CopyLoad, size: u64, seed: u64) -> Self {
        let (mut random, count) = (BenchRandom::new(seed), size / load.bytes);
        Self { next: random.below(count), random: load.random.then_some(random), count, bytes: load.bytes }
    }

    /// The next offset.
    #[inline]
    pub fn next(&mut self) -> u64 {
        self.next = match &mut self.random {
            Some(random) => random.below(self.count),
            None if self.next + 1 < self.count => self.next + 1,
            None => 0,
        };
        self.next * self.bytes
    }
}

/// A slice of a load.
pub struct CopySlice<'a> {
    /// The load.
    pub load: &'a CopyLoad,
    /// Bytes that requests go to.
    pub size: u64,
    /// The duration.
    pub time: Duration,
    /// The number of the slice.
    pub seed: u64,
}

/// The requests of one thread.
struct CopyPart {
    requests: u64,
    start: Instant,
    end: Instant,
}

impl CopySlice<'_> {
    /// Runs the slice with a thread for each buffer; returns requests a second.
    pub fn run<T: CopyTarget>(&self, target: &T, buffers: &mut [CopyBuffer]) -> Result<f64> {
        if let [buffer] = buffers {
            return self.run_whole(target, buffer);
        }
        let start = Barrier::new(buffers.len());
        let parts = std::thread::scope(|scope| {
            let work = |(index, buffer)| {
                let start = &start;
                scope.spawn(move || {
                    start.wait();
                    self.run_thread(target, index as u64, buffer)
                })
            };
            let threads: Vec<_> = buffers.iter_mut().enumerate().map(work).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a copying thread panicked"))
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(rate(&parts))
    }

    /// Runs the slice in this thread, again if the scheduler preempted it, at most [`TRIES_MAX`] times.
    fn run_whole<T: CopyTarget>(&self, target: &T, buffer: &mut CopyBuffer) -> Result<f64> {
        let mut tries = 0;
        loop {
            let before = preemptions();
            let part = self.run_thread(target, 0, buffer)?;
            tries += 1;
            if tries == TRIES_MAX || preemptions() == before {
                return Ok(rate(&[part]));
            }
        }
    }

    fn run_thread<T: CopyTarget>(&self, target: &T, thread: u64, buffer: &mut CopyBuffer) -> Result<CopyPart> {
        let mut places = CopyPlaces::new(self.load, self.size, (self.seed << 8) | thread);
        // Reading the clock costs a tenth of a small request, and drawing an offset separates requests.
        let mut batch = vec![0; ((256 << 10) / self.load.bytes) as usize];
        let start = Instant::now();
        let mut requests = 0;
        loop {
            batch.iter_mut().for_each(|place| *place = places.next());
            if self.load.writes {
                batch.iter().try_for_each(|place| target.write_at(*place, buffer.bytes()))?;
            } else {
                batch.iter().try_for_each(|place| target.read_at(*place, buffer.bytes_mut()))?;
            }
            requests += batch.len() as u64;
            let end = Instant::now();
            if end - start >= self.time {
                return Ok(CopyPart { requests, start, end });
            }
        }
    }
}

fn rate(parts: &[CopyPart]) -> f64 {
    let requests: u64 = parts.iter().map(|part| part.requests).sum();
    let start = parts.iter().map(|part| part.start).min().expect("at least one thread");
    let end = parts.iter().map(|part| part.end).max().expect("at least one thread");
    requests as f64 / (end - start).as_secs_f64()
}
