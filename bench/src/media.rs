//! The protected disk beside other media (pmbd.txt, figure 14): disks of memory that others serve, this machine's own
//! disk, and the hard disk and the SSD of the paper's testbed, simulated.

use std::sync::Arc;

use ferrite_disk::Disk;

use crate::Result;
use crate::applications::{Contestant, Plan, WITH_BARRIERS};
use crate::loads::Size;
use crate::micro::{self, Racer};
use crate::node::Ground;
use crate::options::{Length, OnProgress, Options};
use crate::protection::load::Load;
use crate::report::{Claim, Measure, Report};
use crate::session::{Session, Subject};

pub(crate) mod field;
mod verdict;

use field::Field;

const APPLICATIONS: &str = "Time of applications on ext4, by medium (figure 14)";

/// Bytes from one flush to the next.
const UNFLUSHED_BYTES: u64 = 256 << 10;

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let (plan, applications) = (plan(options.length), applications(options.length));
    let loads = micro::loads(&[false, true], &[4 << 10, 256 << 10], &[1]);
    let loads: Vec<Load> = loads.into_iter().filter(|load| load.random == (load.bytes == 4 << 10)).collect();
    let count = field::NAMES.len();
    let total_ms = plan.total_ms(&loads, count) + 4 * 900 * (plan.rounds as u64 + 1) + applications.total_ms(count);
    let subject = Subject { experiment: "media", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    session.tell("starting servers")?;
    let bytes = plan.disk_bytes.max(applications.size.disk_bytes());
    let field = Field::new(options, bytes)?;
    in_process(&mut session, &field, micro::Plan { size: bytes / 2, ..plan }, &loads)?;
    let mut notes = field.notes.clone();
    notes.extend(applications.run(&mut session, field::OURS, |_| Ok(contestants(&field)))?);
    let verdict = verdict::of(&session.report, notes);
    Ok(session.end(verdict))
}

/// A hard disk answers a hundred requests a second.
fn plan(length: Length) -> micro::Plan {
    let plan = micro::Plan::of(length);
    let rounds = if length == Length::Full { 5 } else { plan.rounds.min(3) };
    micro::Plan { rounds, disk_bytes: plan.disk_bytes / 2, ..plan }
}

/// Where time is short, those that tell the media apart. A hard disk takes 10 ms for each file of a source tree.
fn applications(length: Length) -> Plan<'static> {
    let plan = Plan::of(length, APPLICATIONS);
    let source_bytes = plan.size.source_bytes / 4;
    let loads = if length == Length::Quick { &["untar", "tar", "sfs", "tpcc"] } else { plan.loads };
    Plan { loads, size: Size { source_bytes, ..plan.size }, ..plan }
}

/// Each disk's time to make durable what it takes into its cache is its own.
fn in_process(session: &mut Session<'_>, field: &Field, plan: micro::Plan, loads: &[Load]) -> Result<()> {
    let mut cases = Vec::new();
    for load in session.wanted(loads) {
        let every = UNFLUSHED_BYTES / load.bytes;
        let racer =
            |(name, disk): &(String, Arc<dyn Disk>)| Racer::with_barriers(name.clone(), Arc::clone(disk), every);
        let racers: Vec<Racer> = field.entries.iter().map(racer).collect();
        let case = if load.writes { format!("{}, flushed every 256K", load.name()) } else { load.name() };
        plan.measure(session, (&case, &load), &racers)?;
        cases.push(case);
    }
    session.chart("Reads and writes beside ours, by medium", Measure::Ratio, cases);
    Ok(())
}

/// Every disk by the same way to its file system; and the kernel's own, without us.
fn contestants(field: &Field) -> Vec<Contestant> {
    let mut all: Vec<Contestant> =
        field.entries.iter().map(|(name, disk)| Contestant::disk(name.clone(), Arc::clone(disk))).collect();
    let on_tmpfs = Contestant::on(field::LOOP, Ground::File(field.image.clone()), WITH_BARRIERS);
    all.insert(1, on_tmpfs);
    all
}

const PAPER: [Claim; 3] = [
    Claim { place: "figure 14", what: "time of tpcc on the hard disk beside PMBD", ratio: 110.0 },
    Claim { place: "figure 14", what: "time of tpcc on the SSD beside PMBD", ratio: 5.7 },
    Claim { place: "figure 14", what: "time of devel on the hard disk beside PMBD", ratio: 1.8 },
];
