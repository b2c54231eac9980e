//! What ordering costs (pmbd.txt, figures 11 and 12, table III): barriers by scheme in process, the whole driver beside
//! plain cached stores, and applications on a file system with and without barriers.

use std::sync::Arc;

use ferrite_block::DiskOptions;
use ferrite_disk::Disk;
use ferrite_memory::{Guard, Memory, Scheme};

use crate::Result;
use crate::applications::{Contestant, Plan};
use crate::micro::{self, Racer};
use crate::options::{Length, OnProgress, Options};
use crate::protection::load::Load;
use crate::protection::stage::Stage;
use crate::report::{Claim, Measure, Report};
use crate::session::{Session, Subject};
use crate::write_schemes::{disk, name};

mod alone;
mod verdict;

/// What applications stand beside: plain stores, no guard, no barriers.
const BASE: &str = "no guard, writeback, no barriers";
/// Table III, and the tracking of what was written, which the paper holds to be infeasible.
const SCHEMES: [Scheme; 4] = [Scheme::Nt, Scheme::Clflush, Scheme::Writeback, Scheme::WritebackAll];
/// Writes from one barrier to the next.
const EVERY: [u64; 3] = [1, 16, 256];
/// Writes from one barrier to the next in the overview.
const OVERVIEW_EVERY: u64 = 32;
const PEAK: &str = "no guard, writeback";
const WHOLE: &str = "whole sectors";
const APPLICATIONS: &str = "Time of applications on ext4, with barriers but where told (figure 12)";

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let (plan, applications) = (micro::Plan::of(options.length), Plan::of(options.length, APPLICATIONS));
    let sizes: &[u64] =
        if options.length == Length::Full { &[4 << 10, 64 << 10, 256 << 10] } else { &[4 << 10, 256 << 10] };
    let overview = micro::loads(&[false, true], sizes, &[1, options.threads_many]);
    let few = few(plan);
    let total_ms = few.total_ms(&EVERY.map(|_| SMALL), SCHEMES.len()) * 10
        + alone::total_ms(&few)
        + plan.total_ms(&overview, 3)
        + applications.total_ms(SCHEMES.len() + 2);
    let subject = Subject { experiment: "barriers", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    let pool_bytes = by_scheme(&mut session, few)?;
    let overview = session.wanted(&overview);
    if !overview.is_empty() {
        whole_driver(&mut session, &overview, plan)?;
    }
    let notes = applications.run(&mut session, BASE, |bytes| field(options, bytes))?;
    let verdict = verdict::of(&session.report, pool_bytes, notes);
    Ok(session.end(verdict))
}

const SMALL: Load = Load { writes: true, random: true, bytes: 4 << 10, depth: 1 };

/// Flushing all of a memory takes milliseconds, and a slice many of them.
fn few(plan: micro::Plan) -> micro::Plan {
    micro::Plan { rounds: plan.rounds.div_ceil(8), slice_ms: 5 * plan.slice_ms, ..plan }
}

fn case(every: u64) -> String {
    format!("{}, a barrier after {every}", SMALL.name())
}

/// Small writes with barriers between, and the barriers alone; the bytes of the memory they are on.
fn by_scheme(session: &mut Session<'_>, plan: micro::Plan) -> Result<u64> {
    let cases: Vec<(String, u64)> = EVERY.map(|every| (case(every), every)).into();
    let cases: Vec<_> = cases.into_iter().filter(|(case, _)| session.options.wants(case)).collect();
    if cases.is_empty() && !alone::is_wanted(session.options) {
        return Ok(0);
    }
    session.tell("filling a disk")?;
    let stage = Stage::build(&session.options.place, plan.disk_bytes)?;
    let plan = micro::Plan { size: stage.size(), ..plan };
    let disks = SCHEMES.map(|scheme| (name(Guard::best(), scheme), disk(&stage, Guard::best(), scheme)));
    let disks = disks.into_iter().map(|(name, disk)| Ok((name, disk? as Arc<dyn Disk>))).collect::<Result<Vec<_>>>()?;
    for (case, every) in &cases {
        let racer =
            |(name, disk): &(String, Arc<dyn Disk>)| Racer::with_barriers(name.clone(), Arc::clone(disk), *every);
        let racers: Vec<Racer> = disks.iter().map(racer).collect();
        plan.measure(session, (case, &SMALL), &racers)?;
    }
    let names = cases.into_iter().map(|(case, _)| case).collect();
    session.chart("Small writes with barriers between, by scheme (table III)", Measure::Value, names);
    alone::measure(session, &disks, &plan)?;
    Ok(stage.map(Guard::None)?.size())
}

/// Figure 11: what the driver keeps of the peak.
fn whole_driver(session: &mut Session<'_>, loads: &[Load], plan: micro::Plan) -> Result<()> {
    session.tell("filling disks")?;
    let stages = [(); 2].map(|()| Stage::build(&session.options.place, plan.disk_bytes));
    let [in_place, whole] = stages;
    let (in_place, whole) = (in_place?, whole?);
    let guard = Guard::best();
    let driver = disk(&in_place, guard, Scheme::Nt)?;
    let racers = [
        Racer::new(PEAK, disk(&in_place, Guard::None, Scheme::Writeback)?),
        Racer::with_barriers(driver_name(), driver, OVERVIEW_EVERY),
        Racer::with_barriers(
            WHOLE,
            whole.disk_on(Arc::new(whole.map(guard)?), DiskOptions::default())?,
            OVERVIEW_EVERY,
        ),
    ];
    micro::Plan { size: in_place.size().min(whole.size()), ..plan }.measure_all(session, loads, &racers)?;
    for (writes, title) in
        [(false, "Reads by the whole driver (figure 11)"), (true, "Writes by the whole driver (figure 11)")]
    {
        let cases = loads.iter().filter(|load| load.writes == writes).map(Load::name).collect();
        session.chart(title, Measure::Value, cases);
    }
    Ok(())
}

fn driver_name() -> String {
    format!("{}, barriers", name(Guard::best(), Scheme::Nt))
}

fn field(options: &Options, bytes: u64) -> Result<Vec<Contestant>> {
    let make = |guard, scheme, name: String| -> Result<Contestant> {
        let stage = Stage::build(&options.place, bytes)?;
        Ok(Contestant::disk(name, disk(&stage, guard, scheme)?))
    };
    let guard = Guard::best();
    let mut all = vec![make(Guard::None, Scheme::Writeback, BASE.into())?.without_barriers()];
    all.push(make(guard, Scheme::Nt, format!("{}, no barriers", name(guard, Scheme::Nt)))?.without_barriers());
    for scheme in SCHEMES {
        all.push(make(guard, scheme, name(guard, scheme))?);
    }
    Ok(all)
}

const PAPER: [Claim; 5] = [
    Claim { place: "figure 11", what: "reads of the whole driver, about 16 GB/s, beside the peak", ratio: 0.85 },
    Claim { place: "figure 11", what: "writes of the whole driver, about 11 GB/s, beside the peak", ratio: 0.75 },
    Claim { place: "figure 12", what: "time of applications, barriers with movntq/sfence beside none", ratio: 1.0 },
    Claim { place: "figure 12", what: "time of tpcc, write-back with wbinvd beside no barriers", ratio: 4.1 },
    Claim { place: "table III", what: "operations in a barrier: movntq and clflush none, mov wbinvd", ratio: 0.0 },
];
