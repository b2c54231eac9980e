//! Reads and writes in process by several copiers in turn, by the loads of figures 3 and 8.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk};

use crate::Result;
use crate::copy_buffer::CopyBuffer;
use crate::options::Length;
use crate::protection::copy_load::{CopyLoad, CopySlice, CopyTarget};
use crate::rounds::{BenchSubject, Series};
use crate::session::{BenchSession, Race};

/// The unit of a reported load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyUnit {
    /// MB/s.
    Rate,
    /// Nanoseconds from the end of one request to the end of the next.
    Latency,
}

/// Runs a slice with a thread for each buffer, and returns requests a second.
type RunSlice<'a> = dyn Fn(&CopySlice<'_>, &mut [CopyBuffer]) -> Result<f64> + 'a;

/// A subject that copies by loads.
pub struct CopySubject<'a> {
    name: String,
    run: Box<RunSlice<'a>>,
}

/// A disk, flushed after every so many writes of a thread.
struct DiskTarget {
    disk: Arc<dyn Disk>,
    barrier_every: Option<u64>,
}

thread_local! {
    /// Writes of this thread. One count for all threads would cost a locked instruction, which waits for the stores
    /// before it.
    static WRITTEN: Cell<u64> = const { Cell::new(0) };
}

impl<'a> CopySubject<'a> {
    /// A subject that runs slices on `target`.
    pub fn new(name: impl Into<String>, target: &'a impl CopyTarget) -> Self {
        Self::by(name, move |slice, buffers| slice.run(target, buffers))
    }

    /// A subject that runs a slice, with a thread for each buffer, by `run`, which returns requests a second.
    pub fn by(name: impl Into<String>, run: impl Fn(&CopySlice<'_>, &mut [CopyBuffer]) -> Result<f64> + 'a) -> Self {
        Self { name: name.into(), run: Box::new(run) }
    }

    /// A disk, with a barrier after every `barrier_every` writes of a thread. Its cache is flushed behind each slice,
    /// outside of the time of the next one.
    pub fn disk(name: impl Into<String>, disk: Arc<dyn Disk>, barrier_every: Option<u64>) -> Self {
        let target = DiskTarget { disk, barrier_every };
        Self::by(name, move |slice, buffers| {
            let requests = slice.run(&target, buffers)?;
            target.disk.flush()?;
            Ok(requests)
        })
    }

    /// A disk whose rate includes the time that it takes to flush its cache behind each slice.
    pub fn sustained(name: impl Into<String>, disk: Arc<dyn Disk>) -> Self {
        let target = DiskTarget { disk, barrier_every: None };
        Self::by(name, move |slice, buffers| {
            let requests = slice.run(&target, buffers)? * slice.time.as_secs_f64();
            let start = Instant::now();
            target.disk.flush()?;
            Ok(requests / (slice.time + start.elapsed()).as_secs_f64())
        })
    }
}

impl CopyTarget for DiskTarget {
    #[inline]
    fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        Ok(self.disk.read(at, into)?)
    }

    #[inline]
    fn write_at(&self, at: u64, from: &[u8]) -> Result<()> {
        self.disk.write(at, from, Access::Cached)?;
        let Some(every) = self.barrier_every else { return Ok(()) };
        WRITTEN.set(WRITTEN.get() + 1);
        if WRITTEN.get().is_multiple_of(every) { Ok(self.disk.flush()?) } else { Ok(()) }
    }
}

/// The durations of a series of loads.
#[derive(Clone, Copy, Debug)]
pub struct CopyPlan {
    /// The unit of the report.
    pub unit: CopyUnit,
    /// Bytes of the disks.
    pub disk_bytes: u64,
    /// Bytes at the beginning of the disks that requests go to.
    pub size: u64,
    /// Milliseconds of a slice of one thread, shorter than a time slice of the scheduler.
    pub slice_ms: u64,
    /// How many times as long a slice of many threads is, because each needs several turns.
    pub many_time: u64,
    /// Rounds of one thread.
    pub rounds: usize,
    /// Many threads have one in so many of these rounds.
    pub many_rounds: usize,
}

impl CopyPlan {
    /// The plan for a run of `length`.
    pub fn of(length: Length) -> Self {
        Self {
            unit: CopyUnit::Rate,
            disk_bytes: length.pick([512 << 20, 192 << 20, 4 << 20]),
            size: 0,
            slice_ms: length.pick([2, 1, 1]),
            many_time: 20,
            rounds: length.pick([100, 40, 1]),
            many_rounds: 10,
        }
    }

    fn rounds(&self, load: &CopyLoad) -> usize {
        if load.depth == 1 { self.rounds } else { self.rounds.div_ceil(self.many_rounds) }
    }

    fn slice_ms(&self, load: &CopyLoad) -> u64 {
        if load.depth == 1 { self.slice_ms } else { self.many_time * self.slice_ms }
    }

    /// Measures `load` as `case`, each copier beside the first.
    pub fn measure(
        &self,
        session: &mut BenchSession<'_>,
        case: &str,
        load: &CopyLoad,
        copiers: &[CopySubject<'_>],
    ) -> Result<Vec<Series>> {
        let buffers: Vec<CopyBuffer> = (0..load.depth).map(|_| CopyBuffer::new(load.bytes as usize)).collect();
        let buffers = RefCell::new(buffers);
        let slice_ms = self.slice_ms(load);
        let time = Duration::from_millis(slice_ms);
        let slice = |copier: &CopySubject<'_>, seed| {
            let slice = CopySlice { load, size: self.size, time, seed };
            Ok(self.unit.of((copier.run)(&slice, &mut buffers.borrow_mut())?, load))
        };
        let subject = |copier| {
            let (copier, slice): (&CopySubject<'_>, _) = (copier, &slice);
            BenchSubject::new(copier.name.clone(), move |seed| slice(copier, seed))
        };
        let race = Race { case, unit: self.unit.name(), rounds: self.rounds(load), slice_ms, beside: "" };
        session.race(&race, copiers.iter().map(subject).collect())
    }

    /// Measures each of `loads`.
    pub fn measure_all(
        &self,
        session: &mut BenchSession<'_>,
        loads: &[CopyLoad],
        copiers: &[CopySubject<'_>],
    ) -> Result<()> {
        loads.iter().try_for_each(|load| self.measure(session, &load.name(), load, copiers).map(drop))
    }
}

impl CopyUnit {
    fn name(self) -> &'static str {
        if self == Self::Rate { "MB/s" } else { "ns" }
    }

    fn of(self, requests_per_s: f64, load: &CopyLoad) -> f64 {
        if self == Self::Rate { requests_per_s * load.bytes as f64 / 1e6 } else { 1e9 / requests_per_s }
    }
}

/// Every combination of these verbs (true for writes), bytes of a request and requests at once, in the paper's order.
pub fn loads(verbs: &[bool], sizes: &[u64], depths: &[usize]) -> Vec<CopyLoad> {
    let mut all = Vec::new();
    for (&writes, &depth) in verbs.iter().flat_map(|verb| depths.iter().map(move |depth| (verb, depth))) {
        for &bytes in sizes {
            all.extend([false, true].map(|random| CopyLoad { writes, random, bytes, depth }));
        }
    }
    all
}

#[cfg(test)]
mod tests;
