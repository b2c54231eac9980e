//! What ordering costs (pmbd.txt, figures 11 and 12, table III): barriers by scheme in process, the whole driver beside
//! plain cached stores, and applications on a file system with and without barriers.

use std::sync::Arc;

use ferrite_block::DiskOptions;
use ferrite_disk::Disk;
use ferrite_memory::{Guard, Memory, Scheme};

use crate::Result;
use crate::applications::{AppPlan, AppSubject};
use crate::copy_plan::{self, CopySubject};
use crate::options::{BenchOptions, Length, ProgressWatch};
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::{BenchReport, ChartMeasure, PaperClaim, claim};
use crate::session::BenchSession;
use crate::verdict::{VerdictEntry, figure, line, remark, significant};
use crate::write_schemes::{disk, name};

mod alone;

/// The subject that applications are compared with: plain stores, no guard, no barriers.
const BASE: &str = "no guard, writeback, no barriers";
/// The schemes of table III, and one that tracks written lines, which the paper holds to be infeasible.
const SCHEMES: [Scheme; 4] = [Scheme::Nt, Scheme::Clflush, Scheme::Writeback, Scheme::WritebackAll];
/// Writes from one barrier to the next.
const EVERY: [u64; 3] = [1, 16, 256];
/// Writes from one barrier to the next in the overview.
const OVERVIEW_EVERY: u64 = 32;
const PEAK: &str = "no guard, writeback";
const WHOLE: &str = "whole sectors";
const APPLICATIONS: &str = "Time of applications on ext4, with barriers but where told (figure 12)";

/// Runs it.
pub fn run(options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
    let (plan, applications) = (copy_plan::CopyPlan::of(options.length), AppPlan::of(options.length, APPLICATIONS));
    let sizes: &[u64] =
        if options.length == Length::Full { &[4 << 10, 64 << 10, 256 << 10] } else { &[4 << 10, 256 << 10] };
    let overview = copy_plan::loads(&[false, true], sizes, &[1, options.threads_many]);
    let few = few(plan);
    let total_ms = few.total_ms(&EVERY.map(|_| SMALL), SCHEMES.len()) * 10
        + alone::total_ms(&few)
        + plan.total_ms(&overview, 3)
        + applications.total_ms(SCHEMES.len() + 2);
    let mut session = BenchSession::new("barriers", &PAPER, total_ms, options, on_progress);
    let pool_bytes = by_scheme(&mut session, few)?;
    let overview = session.wanted(&overview);
    if !overview.is_empty() {
        whole_driver(&mut session, &overview, plan)?;
    }
    applications.run(&mut session, BASE, |bytes| field(options, bytes))?;
    let every_line = flush_of_every_line(&session.report, pool_bytes);
    Ok(session.end(VERDICT, every_line))
}

/// The cost of flushing every line of a pool, because user space has no wbinvd.
fn flush_of_every_line(report: &BenchReport, pool_bytes: u64) -> Option<String> {
    let row = report.row(alone::CASES[0].0, &name(Guard::best(), Scheme::WritebackAll))?;
    let line_ns = row.value * 1e3 / (pool_bytes as f64 / 64.0);
    let (mib, ms) = (pool_bytes >> 20, significant(row.value / 1e3));
    Some(format!("flushing every line of {mib} MiB, in place of wbinvd: {ms} ms, {line_ns:.2} ns a clean line"))
}

const SMALL: CopyLoad = CopyLoad { writes: true, random: true, bytes: 4 << 10, depth: 1 };

/// Fewer and longer slices, because flushing all of a memory takes milliseconds.
fn few(plan: copy_plan::CopyPlan) -> copy_plan::CopyPlan {
    copy_plan::CopyPlan { rounds: plan.rounds.div_ceil(8), slice_ms: 5 * plan.slice_ms, ..plan }
}

fn case(every: u64) -> String {
    format!("{}, a barrier after {every}", SMALL.name())
}

/// Measures small writes with barriers between, and barriers alone. Returns the bytes of the memory.
fn by_scheme(session: &mut BenchSession<'_>, plan: copy_plan::CopyPlan) -> Result<u64> {
    let cases: Vec<(String, u64)> = EVERY.map(|every| (case(every), every)).into();
    let cases: Vec<_> = cases.into_iter().filter(|(case, _)| session.options.wants(case)).collect();
    if cases.is_empty() && !alone::is_wanted(session.options) {
        return Ok(0);
    }
    session.announce("filling a disk")?;
    let stage = FilledDisk::build(&session.options.place, plan.disk_bytes)?;
    let plan = copy_plan::CopyPlan { size: stage.size(), ..plan };
    let disks = SCHEMES.map(|scheme| (name(Guard::best(), scheme), disk(&stage, Guard::best(), scheme)));
    let disks = disks.into_iter().map(|(name, disk)| Ok((name, disk? as Arc<dyn Disk>))).collect::<Result<Vec<_>>>()?;
    for (case, every) in &cases {
        let copiers = disks.iter().map(|(name, disk)| CopySubject::disk(name.clone(), Arc::clone(disk), Some(*every)));
        plan.measure(session, case, &SMALL, &copiers.collect::<Vec<_>>())?;
    }
    let names = cases.into_iter().map(|(case, _)| case).collect();
    session.chart("Small writes with barriers between, by scheme (table III)", ChartMeasure::Value, names);
    alone::measure(session, &disks, &plan)?;
    Ok(stage.map(Guard::None)?.size())
}

/// Measures the whole driver beside the peak (figure 11).
fn whole_driver(session: &mut BenchSession<'_>, loads: &[CopyLoad], plan: copy_plan::CopyPlan) -> Result<()> {
    session.announce("filling disks")?;
    let stages = [(); 2].map(|()| FilledDisk::build(&session.options.place, plan.disk_bytes));
    let [in_place, whole] = stages;
    let (in_place, whole) = (in_place?, whole?);
    let guard = Guard::best();
    let driver = disk(&in_place, guard, Scheme::Nt)?;
    let default = whole.disk_on(Arc::new(whole.map(guard)?), DiskOptions::default())?;
    let copiers = [
        CopySubject::disk(PEAK, disk(&in_place, Guard::None, Scheme::Writeback)?, None),
        CopySubject::disk(format!("{}, barriers", name(guard, Scheme::Nt)), driver, Some(OVERVIEW_EVERY)),
        CopySubject::disk(WHOLE, default, Some(OVERVIEW_EVERY)),
    ];
    copy_plan::CopyPlan { size: in_place.size().min(whole.size()), ..plan }.measure_all(session, loads, &copiers)?;
    for (writes, title) in
        [(false, "Reads by the whole driver (figure 11)"), (true, "Writes by the whole driver (figure 11)")]
    {
        let cases = loads.iter().filter(|load| load.writes == writes).map(CopyLoad::name).collect();
        session.chart(title, ChartMeasure::Value, cases);
    }
    Ok(())
}

fn field(options: &BenchOptions, bytes: u64) -> Result<Vec<AppSubject>> {
    let make = |guard, scheme, name: String| -> Result<AppSubject> {
        let stage = FilledDisk::build(&options.place, bytes)?;
        Ok(AppSubject::disk(name, disk(&stage, guard, scheme)?))
    };
    let guard = Guard::best();
    let mut all = vec![make(Guard::None, Scheme::Writeback, BASE.into())?.without_barriers()];
    all.push(make(guard, Scheme::Nt, format!("{}, no barriers", name(guard, Scheme::Nt)))?.without_barriers());
    for scheme in SCHEMES {
        all.push(make(guard, scheme, name(guard, scheme))?);
    }
    Ok(all)
}

const VERDICT: &[VerdictEntry] = &[
    line("the whole driver beside plain cached stores", ""),
    figure("reads", "*, nt, barriers").case("RD*").beside(PEAK).paper("0.85"),
    figure("writes", "*, nt, barriers").case("WR*").beside(PEAK).paper("0.75"),
    figure("writes of whole sectors", WHOLE).case("WR*").beside(PEAK),
    line("a barrier after 64 writes", alone::CASES[1].0),
    figure("nt, which has nothing to flush,", "*, nt").value("us"),
    figure("tracked write-back, which flushes only what was written,", "*, writeback").value("us"),
    line("time of applications with barriers beside none without a guard", ""),
    figure("nt", "*, nt").case("*").unit("s").paper("1"),
    figure("tracked write-back", "*, writeback").case("*").unit("s"),
    figure("all lines flushed", "*, writeback-all").case("*").unit("s"),
    figure("tpcc with all lines flushed", "*, writeback-all").case("tpcc").paper("4.1, with wbinvd"),
    remark("a flush through the /dev node costs more than its barrier"),
];

const PAPER: [PaperClaim; 5] = [
    claim("figure 11", 0.85, "reads of the whole driver, about 16 GB/s, beside the peak"),
    claim("figure 11", 0.75, "writes of the whole driver, about 11 GB/s, beside the peak"),
    claim("figure 12", 1.0, "time of applications, barriers with movntq/sfence beside none"),
    claim("figure 12", 4.1, "time of tpcc, write-back with wbinvd beside no barriers"),
    claim("table III", 0.0, "operations in a barrier: movntq and clflush none, mov wbinvd"),
];

#[cfg(test)]
mod tests;
