//! What protection costs (pmbd.txt, figures 3 and 8): guards beside the bare copy, whole sectors beside a bare
//! copy-on-write, the served disk beside other servers, and the time from a kill to the first reply.
//!
//! "BareCopy" is the same copy routine and the same fence on an unguarded mapping of the same file.

use ferrite_memory::Guard;

use crate::Result;
use crate::ferrite::OURS;
use crate::options::Length;
use crate::report::{BenchReport, ReportRow, claim};
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios_to, remark, values};

mod atomic;
mod copies;
pub mod copy_load;
pub mod filled_disk;
mod recovery;
mod served;

use copies::{BARE, KEYED};
use served::BOUND;

/// The sizes and durations of the experiment.
#[derive(Clone, Copy, Debug)]
struct ProtectionScale {
    /// Bytes of the disk whose copies are timed.
    disk_bytes: u64,
    /// Milliseconds of a slice of copies by one thread, shorter than a time slice of the scheduler: most slices are
    /// whole or lost, and the median is of whole ones. Slices of many threads take 20 times as long.
    slice_ms: u64,
    /// Rounds of copies by one thread; many threads have a fifth.
    rounds: usize,
    /// Bytes that each server serves.
    served_bytes: u64,
    /// Milliseconds of a slice of requests to a server.
    served_slice_ms: u64,
    /// Rounds of requests to servers.
    served_rounds: usize,
    /// Bytes of the pool whose owner is killed.
    killed_bytes: u64,
    /// How often the owner is killed.
    kills: usize,
}

impl ProtectionScale {
    fn of(length: Length) -> Self {
        Self {
            disk_bytes: length.pick([896 << 20, 384 << 20, 4 << 20]),
            slice_ms: 1,
            rounds: length.pick([301, 91, 1]),
            served_bytes: length.pick([512 << 20, 256 << 20, 4 << 20]),
            served_slice_ms: length.pick([20, 15, 1]),
            served_rounds: length.pick([150, 25, 1]),
            killed_bytes: length.pick([1 << 30, 1 << 30, 32 << 20]),
            kills: length.pick([11, 3, 1]),
        }
    }
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let scale = ProtectionScale::of(session.options.length);
    copies::measure(session, &scale)?;
    atomic::measure(session, &scale)?;
    served::measure(session, &scale)?;
    recovery::measure(session, &scale)?;
    let keys = Guard::Keys.ensure_available().is_err().then(|| "keys: this processor has none".into());
    session.findings.extend(keys.into_iter().chain(copied_once(&session.report)));
    Ok(())
}

/// The estimated bound of writes of 256K over NBD if the server copies the data once. A server that copies nothing
/// is measured; the copy, as fast as the bare one, takes its time before or after.
fn copied_once(report: &BenchReport) -> Option<String> {
    let is_bound = |row: &&ReportRow| row.subject == BOUND && row.beside != OURS && row.case.starts_with("NBD WR");
    let bound = |row: &ReportRow| {
        let (load, _) = row.case.strip_prefix("NBD ")?.rsplit_once(' ')?;
        let bare = report.row(&format!("{load} Q1"), BARE)?;
        Some(format!("{:.2}", row.ratio / (1.0 + row.value / bare.value)))
    };
    let large = report.rows.iter().filter(is_bound).filter(|row| row.case.contains("256K"));
    let bounds: Vec<String> = large.filter_map(bound).collect();
    (!bounds.is_empty())
        .then(|| format!("NBD writes of 256K, bound of a server that copies once: {}", bounds.join(", ")))
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "protection",
    about: "what guards cost beside the bare copy (PMBD, figures 3 and 8), NBD beside its peers, recovery",
    expected_ms: [190_000, 42_000, 3000],
    run,
    verdict: &[
        line("naive page table, times as long as the bare copy", "WR * "),
        figure("4K writes", "pagetable*").case("4K Q*").beside(BARE).inverse().paper("18"),
        figure("256K writes", "pagetable*").case("256K Q*").beside(BARE).inverse(),
        line("private mapping beside the bare copy", "* Q*"),
        figure("", "private").beside(BARE).paper("0.85 to 0.90"),
        remark("in user space each mapping takes two system calls and a TLB shootdown"),
        line("keys", "* Q*"),
        figure("beside the bare copy", "keys").beside(BARE).fine(),
        figure("beside a copy in the same window without a disk", "keys").beside(KEYED).fine(),
        line("keys that also deny reads", "RD * 4K Q*"),
        figure("4K reads beside the bare copy", "keys=strict").beside(BARE),
        line("whole sectors beside a bare copy-on-write", atomic::CASES[0].0),
        figure("4K writes under keys", "keys").beside(BARE),
        figure("4K writes without a guard", "none").beside(BARE),
        line("NBD beside the better peer, or beside ferrite if there is none", "NBD *"),
        figure("ferrite", OURS),
        figure("a server that copies nothing at 256K", BOUND).case("256K *"),
        line("first reply after a kill", recovery::CASE),
        figure("", OURS).value("ms"),
    ],
    paper: &[
        claim("figure 3", 0.054, "writes, naive page table beside no protection: 808 MB/s, 14.8 GB/s"),
        claim("figure 8", 0.90, "WR SEQ 256K Q32, private mapping beside no protection"),
        claim("figure 8", 0.85, "RD SEQ 256K Q32, private mapping beside no protection"),
        claim("figure 11", 0.80, "whole driver beside no protection with write-back: 75 to 85 %"),
    ],
    charts: &[
        values("Reads in process, through a disk that overwrites in place, by guard (figures 3 and 8)", "RD *")
            .unit("MB/s"),
        values("Writes in process, through a disk that overwrites in place, by guard (figures 3 and 8)", "WR *")
            .unit("MB/s"),
        ratios_to(
            1.3,
            "Served over NBD on a Unix socket, beside the better of nbdkit's memory plugin and qemu-nbd on tmpfs",
            "NBD *",
        ),
    ],
};

#[cfg(test)]
mod tests;
