//! What an object costs (scm-flash-backed-dram.txt, figure 5 and table 1): small stores by scheme and threads, an update
//! beside the bare instructions and beside LMDB, libpmemobj and a file, and a durable record by medium.

use crate::Result;
use crate::options::Length;
use crate::report::claim;
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, remark, values};

mod lines;
mod media;
pub(crate) mod peers;
mod updates;

pub(crate) use updates::refused;

/// The durations of the experiment.
pub(crate) struct UpdatePlan {
    rounds: usize,
    slice_ms: u64,
}

impl UpdatePlan {
    fn of(length: Length) -> Self {
        Self { rounds: length.pick([101, 31, 1]), slice_ms: length.pick([10, 5, 1]) }
    }
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = UpdatePlan::of(session.options.length);
    let scratch = Scratch::new(&session.options.place)?;
    updates::measure(session, &scratch, &plan)?;
    lines::measure(session, &scratch, &plan)?;
    media::measure(session, &scratch, &plan)
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "objects",
    about: "what an object's update costs beside LMDB, libpmemobj and disks (flash-backed DRAM, figure 5, table 1)",
    expected_ms: [57_000, 11_000, 2500],
    run,
    verdict: &[
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
    ],
    paper: &[
        claim("figure 5", 0.84, "FB-DRAM with flush beside RAM with flush, sequential, saturated"),
        claim("figure 5", 1.0, "write-through costs more than flush"),
        claim("table 1", 1.89, "update latency, FusionIO ioDrive beside FB-DRAM"),
        claim("table 1", 332.3, "update latency, hard disk beside FB-DRAM"),
    ],
    charts: &[
        values("One durable update", "*").unit("ns"),
        values("Sequential 64-bit stores (figure 5)", "64-bit stores SEQ *"),
        values("Random 64-bit stores (figure 5)", "64-bit stores RND *"),
        values("A durable record, by medium (table 1)", media::CASE),
    ],
};

#[cfg(test)]
mod tests;
