//! What slower media cost (pmbd.txt, figure 15): reads 1 to 10 times and writes 1 to 50 times as long as on DRAM, in
//! process and under a database; and how well the emulation keeps to what it is asked for.

use std::sync::Arc;
use std::time::Instant;

use ferrite_block::DiskOptions;
use ferrite_disk::Disk;
use ferrite_memory::{Guard, Pace, Paced, Speed, Tsc};

use crate::Result;
use crate::applications::{Contestant, Plan};
use crate::micro::{self, Racer, Told};
use crate::options::{Length, OnProgress, Options};
use crate::protection::load::Load;
use crate::protection::stage::Stage;
use crate::report::{Claim, Measure, Report};
use crate::session::{Session, Subject};

mod accuracy;
mod verdict;

/// How many times as long reads take, and writes.
const READS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];
const WRITES: [f64; 6] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0];
/// What applications run on, reads then writes: the corners of figure 15, then what lies between.
const GRID: [(f64, f64); 7] =
    [(1.0, 1.0), (10.0, 1.0), (1.0, 50.0), (10.0, 50.0), (5.0, 1.0), (1.0, 10.0), (1.0, 20.0)];
const CORNERS: usize = 4;
/// Media by name that are not the grid's.
const MEDIA: [&str; 3] = ["pcm", "optane", "cxl"];
const APPLICATIONS: &str = "Time of a database by the speed of its medium, reads and writes (figure 15)";

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plan = micro::Plan { told: Told::Time, ..micro::Plan::of(options.length) };
    let (reads, writes) = (loads(false), loads(true));
    let applications = plan_of(options.length);
    let paces = paces(options.length);
    let total_ms = accuracy::TOTAL_MS
        + plan.total_ms(&reads, READS.len()) * 3
        + plan.total_ms(&writes, WRITES.len()) * 10
        + applications.total_ms(paces.len());
    let subject = Subject { experiment: "pace", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    let start = Instant::now();
    let ticks = Tsc::calibrate(|| start.elapsed().as_nanos() as u64)?;
    accuracy::measure(&mut session, ticks)?;
    in_process(&mut session, plan, ticks)?;
    let notes = applications.run(&mut session, &told(&Pace::default()), |bytes| {
        paces.iter().map(|(name, pace)| contestant(options, bytes, (name, *pace, ticks))).collect()
    })?;
    let verdict = verdict::of(&session.report, notes);
    Ok(session.end(verdict))
}

/// The paper's two loads; where PostgreSQL is missing two others tell at least something.
fn plan_of(length: Length) -> Plan<'static> {
    let plan = Plan::of(length, APPLICATIONS);
    let loads: &[&str] = if length == Length::Smoke { &["untar", "tar"] } else { &["tpch", "tpcc", "untar", "tar"] };
    Plan { loads, ..plan }
}

fn loads(writes: bool) -> Vec<Load> {
    micro::loads(&[writes], &[4 << 10, 256 << 10], &[1])
}

/// A pace's name.
fn told(pace: &Pace) -> String {
    format!("rd {}x wr {}x", pace.read.times, pace.write.times)
}

fn relative(reads: f64, writes: f64) -> Pace {
    Pace { read: Speed::relative(reads), write: Speed::relative(writes) }
}

fn paces(length: Length) -> Vec<(String, Pace)> {
    let grid = if length == Length::Full { &GRID[..] } else { &GRID[..CORNERS] };
    let media = MEDIA.into_iter().filter(|_| length == Length::Full);
    let grid = grid.iter().map(|(reads, writes)| relative(*reads, *writes)).map(|pace| (told(&pace), pace));
    grid.chain(media.filter_map(|name| Some((name.to_owned(), Pace::from_name(name)?)))).collect()
}

/// The disk of `stage`, overwritten in place, on a memory of this speed.
fn disk(stage: &Stage, pace: Pace, ticks: Tsc) -> Result<Arc<dyn Disk>> {
    let memory = Paced::new(stage.map(Guard::best())?, pace, ticks)?;
    Ok(stage.disk_on(Arc::new(memory), DiskOptions { in_place: true, ..DiskOptions::default() })?)
}

fn contestant(options: &Options, bytes: u64, (name, pace, ticks): (&str, Pace, Tsc)) -> Result<Contestant> {
    let stage = Stage::build(&options.place, bytes)?;
    Ok(Contestant::disk(name, disk(&stage, pace, ticks)?))
}

fn in_process(session: &mut Session<'_>, plan: micro::Plan, ticks: Tsc) -> Result<()> {
    let directions = [(false, &READS[..], "Reads"), (true, &WRITES[..], "Writes")];
    for (writes, times, verb) in directions {
        let loads = session.wanted(&loads(writes));
        if loads.is_empty() {
            continue;
        }
        session.tell("filling a disk")?;
        let stage = Stage::build(&session.options.place, plan.disk_bytes)?;
        let racer = |times: f64| {
            let pace = if writes { relative(1.0, times) } else { relative(times, 1.0) };
            Ok(Racer::new(format!("{times}x"), disk(&stage, pace, ticks)?))
        };
        let racers = times.iter().map(|times| racer(*times)).collect::<Result<Vec<_>>>()?;
        micro::Plan { size: stage.size(), ..plan }.measure_all(session, &loads, &racers)?;
        let title = format!("{verb} in process, beside DRAM's speed, by how many times as long is asked for");
        session.chart(&title, Measure::Ratio, loads.iter().map(Load::name).collect());
    }
    Ok(())
}

const PAPER: [Claim; 3] = [
    Claim { place: "figure 15", what: "time of tpch, reads 10 times as long, beside DRAM", ratio: 1.36 },
    Claim { place: "figure 15", what: "time of tpch at worst, beside DRAM", ratio: 1.4 },
    Claim { place: "figure 15", what: "time of tpcc at worst (reads 10, writes 50 times), beside DRAM", ratio: 3.6 },
];
