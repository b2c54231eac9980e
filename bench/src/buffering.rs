//! What buffers in DRAM gain for a guard by page table (pmbd.txt, figures 5 and 6): none, one without and with batching,
//! sixteen of the same size in all, beside no guard at all.
//!
//! The paper's runs of 30 s write many times what buffers hold. Here a slice's time includes draining the buffers, so
//! that a short slice measures the sustained rate.

use std::sync::Arc;

use ferrite_block::{BufferOptions, Buffered, Syncers};
use ferrite_memory::{Guard, Scheme};

use crate::Result;
use crate::copy_plan::{self, CopyPlan, CopySubject};
use crate::options::Length;
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::claim;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, remark, values};

/// The subject that all are compared with.
const BASE: &str = "no guard";
/// The page table alone, which the paper starts with.
const NAIVE: &str = "pagetable (PT-Naive)";
const BUFFER: &str = "one buffer";
const BATCH: &str = "one buffer, batching";
const MANY: &str = "16 buffers, batching";
/// The default guard, which needs no buffer.
const KEYS: &str = "keys";
const BUFFERS: usize = 16;

/// A slice of many threads is no longer than one of one thread, because each drains the buffers.
fn plan(length: Length) -> CopyPlan {
    let (slice_ms, rounds) = (length.pick([150, 45, 1]), length.pick([15, 5, 1]));
    CopyPlan { slice_ms, rounds, many_time: 1, many_rounds: 1, ..CopyPlan::of(length) }
}

/// Bytes of one buffer, the paper's 16 MiB, or of all sixteen together: more would hold more of so small a disk.
fn buffer_bytes(length: Length) -> u64 {
    if length == Length::Smoke { 256 << 10 } else { 16 << 20 }
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let plan = plan(options.length);
    let loads = copy_plan::loads(&[true], &[4 << 10, 256 << 10], &[1, options.threads_many]);
    let loads = session.wanted(loads, CopyLoad::name);
    session.announce("filling a disk")?;
    let stage = FilledDisk::build(&options.place, plan.disk_bytes)?;
    let disk = |guard| stage.in_place(guard, Scheme::Nt);
    let mut copiers =
        vec![CopySubject::sustained(BASE, disk(Guard::None)?), CopySubject::sustained(NAIVE, disk(Guard::Pagetable)?)];
    let one = BufferOptions { buffer_bytes: buffer_bytes(options.length), ..BufferOptions::default() };
    let many = BufferOptions { buffers: BUFFERS, buffer_bytes: one.buffer_bytes / BUFFERS as u64, ..one };
    let mut syncers = Vec::new();
    for (name, options) in [(BUFFER, BufferOptions { batch: false, ..one }), (BATCH, one), (MANY, many)] {
        let buffered = Buffered::in_front_of(disk(Guard::Pagetable)?, options)?;
        syncers.push(Syncers::start(Arc::clone(&buffered))?);
        copiers.push(CopySubject::sustained(name, buffered));
    }
    if Guard::Keys.ensure_available().is_ok() {
        copiers.push(CopySubject::sustained(KEYS, disk(Guard::Keys)?));
    }
    CopyPlan { size: stage.size(), ..plan }.measure_all(session, &loads, &copiers)?;
    let cores = session.report.machine.cores;
    let few = (cores < 8).then(|| format!("{cores} processors have little concurrency for 16 buffers to use"));
    session.findings.extend(few);
    Ok(())
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "buffering",
    about: "buffers in DRAM before a guard by page table (PMBD, figures 5 and 6)",
    expected_ms: [115_000, 13_000, 100],
    run,
    verdict: &[
        line("naive page table beside no guard", "*"),
        figure("", NAIVE).paper("0.054"),
        line("4K with many in flight, one buffer beside the naive page table", "WR "),
        figure("in sequence", BUFFER).case("SEQ 4K Q*").except("*Q1").beside(NAIVE).paper("0.40"),
        figure("at random", BUFFER).case("RND 4K Q*").except("*Q1").beside(NAIVE),
        remark("a buffer adds a copy and a lock, and saves no system call"),
        line("the same, batching beside the naive page table", "WR "),
        figure("in sequence", BATCH).case("SEQ 4K Q*").except("*Q1").beside(NAIVE).paper("2.57"),
        figure("at random", BATCH).case("RND 4K Q*").except("*Q1").beside(NAIVE).paper("0.48"),
        remark("only neighbours share a change of the page table"),
        line("the same, 16 buffers beside one", "WR "),
        figure("in sequence", MANY).case("SEQ 4K Q*").except("*Q1").beside(BATCH).paper("1.52"),
        figure("at random", MANY).case("RND 4K Q*").except("*Q1").beside(BATCH).paper("1.94"),
        line("keys, which need no buffer, beside no guard", "*"),
        figure("", KEYS),
    ],
    paper: &[
        claim("figure 3", 0.054, "WR, naive page table beside no protection: 808 MB/s, 14.8 GB/s"),
        claim("figure 5", 0.40, "WR SEQ 4K Q32, one buffer beside naive: 315 MB/s, 789 MB/s"),
        claim("figure 5", 2.57, "WR SEQ 4K Q32, batching beside naive: 2028 MB/s, 789 MB/s"),
        claim("figure 5", 0.48, "WR RND 4K Q32, batching beside naive: 374 MB/s, 786 MB/s"),
        claim("figure 6", 1.52, "WR SEQ 4K Q32, 16 buffers beside one: 3074 MB/s, 2028 MB/s"),
        claim("figure 6", 1.94, "WR RND 4K Q32, 16 buffers beside one: 724 MB/s, 374 MB/s"),
    ],
    charts: &[values("Writes that last, by buffers before a guard by page table (figures 5 and 6)", "*")],
};

#[cfg(test)]
mod tests;
