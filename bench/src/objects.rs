//! What an object costs (scm-flash-backed-dram.txt, figure 5 and table 1): small stores by scheme and threads, an update
//! beside the bare instructions and beside LMDB, libpmemobj and a file, and a durable record by medium.

use crate::Result;
use crate::options::{BenchOptions, Length, ProgressWatch};
use crate::report::{BenchReport, PaperClaim, claim};
use crate::scratch::Scratch;
use crate::session::BenchSession;
use crate::verdict::{VerdictEntry, figure, line, remark};

mod lines;
mod media;
pub(crate) mod peers;
mod updates;

/// The durations of the experiment.
pub(crate) struct UpdatePlan {
    rounds: usize,
    slice_ms: u64,
}

impl UpdatePlan {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { rounds: 101, slice_ms: 10 },
            Length::Quick => Self { rounds: 31, slice_ms: 5 },
            Length::Smoke => Self { rounds: 1, slice_ms: 1 },
        }
    }
}

/// Runs it.
pub fn run(options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
    let plan = UpdatePlan::of(options.length);
    let total_ms = lines::total_ms(&plan) + updates::total_ms(&plan) + media::total_ms();
    let mut session = BenchSession::new("objects", &PAPER, total_ms, options, on_progress);
    let scratch = Scratch::new(&options.place)?;
    updates::measure(&mut session, &scratch, &plan)?;
    lines::measure(&mut session, &scratch, &plan)?;
    media::measure(&mut session, &scratch, &plan)?;
    Ok(session.end(VERDICT, None))
}

const VERDICT: &[VerdictEntry] = &[
    line("a direct update of a line beside store, flush and fence", updates::LINE),
    figure("", updates::DIRECT),
    line("an append of 64 bytes beside the bare store and fence", updates::APPEND),
    figure("", updates::APPENDED),
    line("an update of 64 bytes, times as long as a map's put", updates::UPDATE),
    figure("libpmemobj", "libpmemobj"),
    figure("LMDB", "LMDB*"),
    figure("pwrite and fdatasync", "pwrite, fdatasync"),
    line("bandwidth of write-through beside flush", "64-bit stores "),
    figure("in sequence", "writethrough").case("SEQ *").paper("less than 1"),
    figure("at random", "writethrough").case("RND *").paper("less than 1"),
    remark("write-through is imitated by flushing every word, and costs the same"),
    line("a durable record, times as long as in persistent memory", media::CASE),
    figure("disks", "*").paper("1.9 to 332"),
];

const PAPER: [PaperClaim; 4] = [
    claim("figure 5", 0.84, "FB-DRAM with flush beside RAM with flush, sequential, saturated"),
    claim("figure 5", 1.0, "write-through costs more than flush"),
    claim("table 1", 1.89, "update latency, FusionIO ioDrive beside FB-DRAM"),
    claim("table 1", 332.3, "update latency, hard disk beside FB-DRAM"),
];

#[cfg(test)]
mod tests;
