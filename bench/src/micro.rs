//! Reads and writes in process on several disks in turn, by the loads of figures 3 and 8.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Access, Disk};

use crate::Result;
use crate::buffer::Buffer;
use crate::options::Length;
use crate::protection::load::{Load, Slice, Target};
use crate::report::rows;
use crate::rounds::{self, Subject};
use crate::session::Session;

/// What is told of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// MB/s.
    Rate,
    /// ns from one request's end to the next one's.
    Time,
}

/// A disk that is measured.
pub struct Racer {
    /// Its name in the report.
    pub name: String,
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Writes from one barrier to the next; `None` for no barriers.
    pub barrier_every: Option<u64>,
}

thread_local! {
    /// Writes of this thread. One count for all threads would cost a locked instruction, which waits for the stores
    /// before it.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
}

impl Racer {
    /// One without barriers.
    pub fn new(name: impl Into<String>, disk: Arc<dyn Disk>) -> Self {
        Self { name: name.into(), disk, barrier_every: None }
    }

    /// One with a barrier after every so many writes of a thread.
    pub fn with_barriers(name: impl Into<String>, disk: Arc<dyn Disk>, every: u64) -> Self {
        Self { barrier_every: Some(every), ..Self::new(name, disk) }
    }
}

impl Target for Racer {
    #[inline]
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.disk.read(at, into)?)
    }

    #[inline]
    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.disk.write(at, from, Access::Cached)?;
        let Some(every) = self.barrier_every else { return Ok(()) };
        WRITTEN.set(WRITTEN.get() + 1);
        if WRITTEN.get().is_multiple_of(every) { Ok(self.disk.flush()?) } else { Ok(()) }
    }
}

/// How long is measured.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// What is told.
    pub told: Told,
    /// Bytes of the disks.
    pub disk_bytes: u64,
    /// Bytes of them that are worked on.
    pub size: u64,
    /// Milliseconds of a slice of one thread: shorter than what the scheduler gives to others. Many threads, which need
    /// turns, have 20 times as long.
    pub slice_ms: u64,
    /// Rounds of one thread; of many threads a tenth.
    pub rounds: usize,
}

impl Plan {
    /// For a run of `length`.
    pub fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { told: Told::Rate, disk_bytes: 512 << 20, size: 0, slice_ms: 2, rounds: 100 },
            Length::Quick => Self { told: Told::Rate, disk_bytes: 192 << 20, size: 0, slice_ms: 1, rounds: 40 },
            Length::Smoke => Self { told: Told::Rate, disk_bytes: 4 << 20, size: 0, slice_ms: 1, rounds: 1 },
        }
    }

    fn rounds(&self, load: &Load) -> usize {
        if load.depth == 1 { self.rounds } else { self.rounds.div_ceil(10) }
    }

    fn slice_ms(&self, load: &Load) -> u64 {
        if load.depth == 1 { self.slice_ms } else { 20 * self.slice_ms }
    }

    /// Milliseconds that `loads` take with `racers`, about.
    pub fn total_ms(&self, loads: &[Load], racers: usize) -> u64 {
        loads.iter().map(|load| (self.rounds(load) as u64 + 1) * self.slice_ms(load) * racers as u64).sum()
    }
}

impl Told {
    fn unit(self) -> &'static str {
        if self == Self::Rate { "MB/s" } else { "ns" }
    }

    fn of(self, requests_per_s: f64, load: &Load) -> f64 {
        if self == Self::Rate { requests_per_s * load.bytes as f64 / 1e6 } else { 1e9 / requests_per_s }
    }
}

/// Every combination of these, in the paper's order.
pub fn loads(verbs: &[bool], sizes: &[u64], depths: &[usize]) -> Vec<Load> {
    let mut all = Vec::new();
    for (&writes, &depth) in verbs.iter().flat_map(|verb| depths.iter().map(move |depth| (verb, depth))) {
        for &bytes in sizes {
            all.extend([false, true].map(|random| Load { writes, random, bytes, depth }));
        }
    }
    all
}

impl Plan {
    /// Measures `load` as `case`, each racer beside the first.
    pub fn measure(&self, session: &mut Session<'_>, (case, load): (&str, &Load), racers: &[Racer]) -> Result<()> {
        let mut buffers: Vec<Buffer> = (0..load.depth).map(|_| Buffer::new(load.bytes as usize)).collect();
        let buffers = RefCell::new(&mut buffers[..]);
        let (slice_ms, rounds) = (self.slice_ms(load), self.rounds(load));
        let time = Duration::from_millis(slice_ms);
        let slice = |racer: &Racer, seed| {
            let slice = Slice { load, size: self.size, time, seed };
            let requests = slice.run(racer, *buffers.borrow_mut())?;
            // What one leaves in the cache is not to be flushed in another's time.
            racer.disk.flush()?;
            Ok(self.told.of(requests, load))
        };
        let mut subjects: Vec<Subject<'_>> =
            racers.iter().map(|racer| Subject::new(racer.name.clone(), |seed| slice(racer, seed))).collect();
        let steps = &mut session.steps;
        let series = rounds::run(&mut subjects, rounds, &mut || steps.step(case, slice_ms))?;
        session.report.rows.extend(rows(case, self.told.unit(), &series, &series[0]));
        Ok(())
    }

    /// Measures each of `loads`.
    pub fn measure_all(&self, session: &mut Session<'_>, loads: &[Load], racers: &[Racer]) -> Result<()> {
        loads.iter().try_for_each(|load| self.measure(session, (&load.name(), load), racers))
    }
}
