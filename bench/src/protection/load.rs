//! The loads of figures 3 and 8: reads or writes, in sequence or at random places, small or large, one or many.

use std::sync::Barrier;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use crate::Result;
use crate::bare::Bare;
use crate::buffer::Buffer;
use crate::machine::preemptions;
use crate::random::Random;

/// How often a slice is measured at most until nobody else took its processor meanwhile.
const TRIES_MAX: usize = 8;

/// What is read and written.
pub trait Target: Sync {
    /// Reads at `at`.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;
    /// Writes at `at`; durable on return.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;
}

impl Target for Bare {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Bare::read(self, at, into);
        Ok(())
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        Bare::write(self, at, from);
        Ok(())
    }
}

impl Target for ferrite_block::BlockDisk {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(Disk::read(self, at, into)?)
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        Ok(Disk::write(self, at, from, Access::Cached)?)
    }
}

/// One of the paper's loads.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Writes rather than reads.
    pub writes: bool,
    /// At random places rather than in sequence.
    pub random: bool,
    /// Bytes of a request.
    pub bytes: u64,
    /// Requests at once.
    pub depth: usize,
}

impl Load {
    /// Its name, as the paper writes it.
    pub fn name(&self) -> String {
        let verb = if self.writes { "WR" } else { "RD" };
        let pattern = if self.random { "RND" } else { "SEQ" };
        format!("{verb} {pattern} {}K Q{}", self.bytes >> 10, self.depth)
    }
}

/// The places of one thread's requests.
pub struct Places {
    random: Option<Random>,
    next: u64,
    count: u64,
    bytes: u64,
}

impl Places {
    /// Places of `load` on `size` bytes: random ones, or in sequence from a random one.
    pub fn new(load: &Load, size: u64, seed: u64) -> Self {
        let (mut random, count) = (Random::new(seed), size / load.bytes);
        Self { next: random.below(count), random: load.random.then_some(random), count, bytes: load.bytes }
    }

    /// The next.
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
pub struct Slice<'a> {
    /// What is done.
    pub load: &'a Load,
    /// On how many bytes.
    pub size: u64,
    /// For how long.
    pub time: Duration,
    /// Which slice it is.
    pub seed: u64,
}

/// What one thread did.
struct Part {
    requests: u64,
    start: Instant,
    end: Instant,
}

impl Slice<'_> {
    /// Runs it with a thread for each buffer; requests a second.
    pub fn run<T: Target>(&self, target: &T, buffers: &mut [Buffer]) -> Result<f64> {
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

    /// Runs it in this thread, again and again while the scheduler cuts it short for others, but not forever.
    fn run_whole<T: Target>(&self, target: &T, buffer: &mut Buffer) -> Result<f64> {
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

    fn run_thread<T: Target>(&self, target: &T, thread: u64, buffer: &mut Buffer) -> Result<Part> {
        let mut places = Places::new(self.load, self.size, (self.seed << 8) | thread);
        // The clock costs as much as a tenth of a small request, and drawing a place keeps requests apart.
        let mut batch = vec![0; ((256 << 10) / self.load.bytes) as usize];
        let start = Instant::now();
        let mut requests = 0;
        loop {
            batch.iter_mut().for_each(|place| *place = places.next());
            if self.load.writes {
                batch.iter().try_for_each(|place| target.write(*place, buffer.bytes()))?;
            } else {
                batch.iter().try_for_each(|place| target.read(*place, buffer.bytes_mut()))?;
            }
            requests += batch.len() as u64;
            let end = Instant::now();
            if end - start >= self.time {
                return Ok(Part { requests, start, end });
            }
        }
    }
}

fn rate(parts: &[Part]) -> f64 {
    let requests: u64 = parts.iter().map(|part| part.requests).sum();
    let start = parts.iter().map(|part| part.start).min().expect("at least one thread");
    let end = parts.iter().map(|part| part.end).max().expect("at least one thread");
    requests as f64 / (end - start).as_secs_f64()
}
