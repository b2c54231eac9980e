//! What buffers in DRAM gain for a guard by page table (pmbd.txt, figures 5 and 6): none, one without and with batching,
//! sixteen of the same size in all, beside no guard at all.
//!
//! The paper's runs of 30 s write many times what buffers hold. Here what they still hold is drained within the time that
//! is taken, so that a short slice tells the rate that lasts.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_block::{BlockDisk, BufferOptions, Buffered, Syncers};
use ferrite_memory::{Guard, Scheme};

use crate::Result;
use crate::buffer::Buffer;
use crate::micro::{self, Racer};
use crate::options::{Length, OnProgress, Options};
use crate::protection::load::{Load, Slice};
use crate::protection::stage::Stage;
use crate::report::{Claim, Measure, Report, rows};
use crate::rounds::{self, Subject};
use crate::session::{self, Session};
use crate::write_schemes::disk;

mod verdict;

/// What everything stands beside.
const BASE: &str = "no guard";
/// The page table alone, as the paper starts with.
const NAIVE: &str = "pagetable (PT-Naive)";
const BUFFER: &str = "one buffer";
const BATCH: &str = "one buffer, batching";
const MANY: &str = "16 buffers, batching";
/// The guard of today, which needs no buffer.
const KEYS: &str = "keys";
const BUFFERS: usize = 16;

/// How long is measured.
#[derive(Clone, Copy)]
struct Scale {
    disk_bytes: u64,
    slice_ms: u64,
    rounds: usize,
    /// Of one buffer, the paper's 16 MiB, or of all: more memory would hold more of so small a disk.
    buffer_bytes: u64,
}

impl Scale {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { disk_bytes: 512 << 20, slice_ms: 150, rounds: 15, buffer_bytes: 16 << 20 },
            Length::Quick => Self { disk_bytes: 192 << 20, slice_ms: 45, rounds: 5, buffer_bytes: 16 << 20 },
            Length::Smoke => Self { disk_bytes: 4 << 20, slice_ms: 1, rounds: 1, buffer_bytes: 256 << 10 },
        }
    }
}

/// A disk that is written to, and the threads that drain its buffers.
struct Writer {
    racer: Racer,
    _syncers: Option<Syncers<Arc<BlockDisk>>>,
}

impl Writer {
    fn plain(name: &str, stage: &Stage, guard: Guard) -> Result<Self> {
        Ok(Self { racer: Racer::new(name, disk(stage, guard, Scheme::Nt)?), _syncers: None })
    }

    fn buffered(name: &str, stage: &Stage, options: BufferOptions) -> Result<Self> {
        let buffered = Buffered::in_front_of(disk(stage, Guard::Pagetable, Scheme::Nt)?, options)?;
        let syncers = Some(Syncers::start(Arc::clone(&buffered))?);
        Ok(Self { racer: Racer::new(name, buffered), _syncers: syncers })
    }

    /// MB/s of a slice with the draining after it.
    fn sustained(&self, slice: &Slice<'_>, buffers: &mut [Buffer]) -> Result<f64> {
        let requests = slice.run(&self.racer, buffers)? * slice.time.as_secs_f64();
        let start = Instant::now();
        self.racer.disk.flush()?;
        Ok(requests * slice.load.bytes as f64 / 1e6 / (slice.time + start.elapsed()).as_secs_f64())
    }
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let scale = Scale::of(options.length);
    let loads = micro::loads(&[true], &[4 << 10, 256 << 10], &[1, options.threads_many]);
    let total_ms = (loads.len() * 6 * (scale.rounds + 1)) as u64 * scale.slice_ms;
    let subject = session::Subject { experiment: "buffering", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    let loads = session.wanted(&loads);
    session.tell("filling a disk")?;
    let stage = Stage::build(&options.place, scale.disk_bytes)?;
    let writers = writers(&stage, &scale)?;
    for load in &loads {
        measure(&mut session, load, &writers, (&scale, stage.size()))?;
    }
    let cases: Vec<String> = loads.iter().map(Load::name).collect();
    session.chart("Writes that last, by buffers before a guard by page table (figures 5 and 6)", Measure::Value, cases);
    let verdict = verdict::of(&session.report, options.threads_many);
    Ok(session.end(verdict))
}

fn writers(stage: &Stage, scale: &Scale) -> Result<Vec<Writer>> {
    let one = BufferOptions { buffer_bytes: scale.buffer_bytes, ..BufferOptions::default() };
    let mut writers = vec![
        Writer::plain(BASE, stage, Guard::None)?,
        Writer::plain(NAIVE, stage, Guard::Pagetable)?,
        Writer::buffered(BUFFER, stage, BufferOptions { batch: false, ..one })?,
        Writer::buffered(BATCH, stage, one)?,
        Writer::buffered(
            MANY,
            stage,
            BufferOptions { buffers: BUFFERS, buffer_bytes: scale.buffer_bytes / BUFFERS as u64, ..one },
        )?,
    ];
    if Guard::Keys.ensure_available().is_ok() {
        writers.push(Writer::plain(KEYS, stage, Guard::Keys)?);
    }
    Ok(writers)
}

fn measure(session: &mut Session<'_>, load: &Load, writers: &[Writer], (scale, size): (&Scale, u64)) -> Result<()> {
    let case = load.name();
    let mut buffers: Vec<Buffer> = (0..load.depth).map(|_| Buffer::new(load.bytes as usize)).collect();
    let buffers = RefCell::new(&mut buffers[..]);
    let time = Duration::from_millis(scale.slice_ms);
    let slice = |writer: &Writer, seed| writer.sustained(&Slice { load, size, time, seed }, *buffers.borrow_mut());
    let mut subjects: Vec<Subject<'_>> =
        writers.iter().map(|writer| Subject::new(writer.racer.name.clone(), |seed| slice(writer, seed))).collect();
    let steps = &mut session.steps;
    let series = rounds::run(&mut subjects, scale.rounds, &mut || steps.step(&case, scale.slice_ms))?;
    session.report.rows.extend(rows(&case, "MB/s", &series, &series[0]));
    Ok(())
}

const PAPER: [Claim; 6] = [
    Claim { place: "figure 3", what: "WR, naive page table beside no protection: 808 MB/s, 14.8 GB/s", ratio: 0.054 },
    Claim { place: "figure 5", what: "WR SEQ 4K Q32, one buffer beside naive: 315 MB/s, 789 MB/s", ratio: 0.40 },
    Claim { place: "figure 5", what: "WR SEQ 4K Q32, batching beside naive: 2028 MB/s, 789 MB/s", ratio: 2.57 },
    Claim { place: "figure 5", what: "WR RND 4K Q32, batching beside naive: 374 MB/s, 786 MB/s", ratio: 0.48 },
    Claim { place: "figure 6", what: "WR SEQ 4K Q32, 16 buffers beside one: 3074 MB/s, 2028 MB/s", ratio: 1.52 },
    Claim { place: "figure 6", what: "WR RND 4K Q32, 16 buffers beside one: 724 MB/s, 374 MB/s", ratio: 1.94 },
];
