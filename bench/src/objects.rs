//! What an object costs (scm-flash-backed-dram.txt, figure 5 and table 1): small stores by scheme and threads, an update
//! beside the bare instructions and beside LMDB, libpmemobj and a file, and a durable record by medium.

use crate::Result;
use crate::options::{Length, OnProgress, Options};
use crate::report::{Claim, Report};
use crate::scratch::Scratch;
use crate::session::{Session, Subject};
use crate::verdict::{self, figure};

mod lines;
mod media;
pub(crate) mod peers;
mod updates;

/// How much is measured.
pub(crate) struct Plan {
    rounds: usize,
    slice_ms: u64,
}

impl Plan {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self { rounds: 101, slice_ms: 10 },
            Length::Quick => Self { rounds: 31, slice_ms: 5 },
            Length::Smoke => Self { rounds: 1, slice_ms: 1 },
        }
    }
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plan = Plan::of(options.length);
    let total_ms = lines::total_ms(&plan) + updates::total_ms(&plan) + media::total_ms();
    let mut session = Session::new(&Subject { experiment: "objects", paper: &PAPER, total_ms }, options, on_progress);
    let (scratch, mut notes) = (Scratch::new(&options.place)?, Vec::new());
    updates::measure(&mut session, &scratch, &plan, &mut notes)?;
    lines::measure(&mut session, &scratch, &plan)?;
    media::measure(&mut session, &scratch, &plan, &mut notes)?;
    let verdict = verdict_of(&session.report, notes);
    Ok(session.end(verdict))
}

fn verdict_of(report: &Report, notes: Vec<String>) -> String {
    let mut parts = Vec::new();
    if let Some(row) = report.row(updates::LINE, updates::DIRECT) {
        parts.push(format!("a direct update of a line takes {} of store, flush and fence", figure(row.ratio)));
    }
    if let Some(row) = report.row(updates::APPEND, updates::APPENDED) {
        parts.push(format!("an append of 64 bytes {} of the bare store and fence", figure(row.ratio)));
    }
    let peers = verdict::range(report, |row| {
        row.case == updates::UPDATE && ![updates::MAP, updates::DIRECT, updates::APPENDED].contains(&&*row.subject)
    });
    parts.extend(peers.map(|range| format!("peers take {range} times as long as a map's put")));
    let through = |begin: &'static str| {
        verdict::range(report, move |row| row.subject == "writethrough" && row.case.starts_with(begin))
    };
    if let (Some(sequential), Some(random)) = (through("64-bit stores SEQ"), through("64-bit stores RND")) {
        parts.push(format!(
            "write-through has {sequential} of flush's bandwidth in sequence and {random} at random (paper: less than \
             flush; here it is imitated by flushing every word, and costs the same)"
        ));
    }
    let disks = verdict::range(report, |row| row.case == media::CASE && row.subject != media::OURS);
    parts.extend(disks.map(|range| format!("disks take {range} times as long (paper: 1.9 to 332)")));
    verdict::join(report, parts, notes)
}

const PAPER: [Claim; 4] = [
    Claim { place: "figure 5", what: "FB-DRAM with flush beside RAM with flush, sequential, saturated", ratio: 0.84 },
    Claim { place: "figure 5", what: "write-through costs more than flush", ratio: 1.0 },
    Claim { place: "table 1", what: "update latency, FusionIO ioDrive beside FB-DRAM", ratio: 1.89 },
    Claim { place: "table 1", what: "update latency, hard disk beside FB-DRAM", ratio: 332.3 },
];
