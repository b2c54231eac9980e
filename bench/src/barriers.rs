//! What ordering costs (pmbd.txt, figures 11 and 12, table III): barriers by scheme in process, the whole driver beside
//! plain cached stores, and applications on a file system with and without barriers.

use std::sync::Arc;

use ferrite_disk::Disk;
use ferrite_memory::{Guard, Memory, Scheme};

use crate::Result;
use crate::applications::{AppPlan, AppSubject};
use crate::copy_plan::{self, CopyPlan, CopySubject};
use crate::options::{BenchOptions, Length};
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::{BenchReport, claim};
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios, remark, significant, values};
use crate::write_schemes::name;

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

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let (options, plan) = (session.options, CopyPlan::of(session.options.length));
    let sizes: &[u64] =
        if options.length == Length::Full { &[4 << 10, 64 << 10, 256 << 10] } else { &[4 << 10, 256 << 10] };
    let overview = copy_plan::loads(&[false, true], sizes, &[1, options.threads_many]);
    let pool_bytes = by_scheme(session, few(plan))?;
    let overview = session.wanted(overview, CopyLoad::name);
    if !overview.is_empty() {
        whole_driver(session, &overview, plan)?;
    }
    AppPlan::of(options.length).run(session, BASE, |bytes| field(options, bytes))?;
    session.findings.extend(flush_of_every_line(&session.report, pool_bytes));
    Ok(())
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
fn few(plan: CopyPlan) -> CopyPlan {
    CopyPlan { rounds: plan.rounds.div_ceil(8), slice_ms: 5 * plan.slice_ms, ..plan }
}

fn case(every: u64) -> String {
    format!("{}, a barrier after {every}", SMALL.name())
}

/// Measures small writes with barriers between, and barriers alone. Returns the bytes of the memory.
fn by_scheme(session: &mut BenchSession<'_>, plan: CopyPlan) -> Result<u64> {
    let cases = session.wanted(EVERY.map(|every| (case(every), every)), |(case, _)| case.clone());
    let alone = session.wanted(alone::CASES, |(case, _)| *case);
    if cases.is_empty() && alone.is_empty() {
        return Ok(0);
    }
    session.announce("filling a disk")?;
    let stage = FilledDisk::build(&session.options.place, plan.disk_bytes)?;
    let plan = CopyPlan { size: stage.size(), ..plan };
    let disks = SCHEMES.map(|scheme| (name(Guard::best(), scheme), stage.in_place(Guard::best(), scheme)));
    let disks = disks.into_iter().map(|(name, disk)| Ok((name, disk? as Arc<dyn Disk>))).collect::<Result<Vec<_>>>()?;
    for (case, every) in &cases {
        let copiers = disks.iter().map(|(name, disk)| CopySubject::disk(name.clone(), Arc::clone(disk), Some(*every)));
        plan.measure(session, case, &SMALL, &copiers.collect::<Vec<_>>())?;
    }
    alone::measure(session, &alone, &disks, &plan)?;
    Ok(stage.map(Guard::None)?.size())
}

/// Measures the whole driver beside the peak (figure 11).
fn whole_driver(session: &mut BenchSession<'_>, loads: &[CopyLoad], plan: CopyPlan) -> Result<()> {
    session.announce("filling disks")?;
    let build = || FilledDisk::build(&session.options.place, plan.disk_bytes);
    let (in_place, whole, guard) = (build()?, build()?, Guard::best());
    let driver = in_place.in_place(guard, Scheme::Nt)?;
    let copiers = [
        CopySubject::disk(PEAK, in_place.in_place(Guard::None, Scheme::Writeback)?, None),
        CopySubject::disk(format!("{}, barriers", name(guard, Scheme::Nt)), driver, Some(OVERVIEW_EVERY)),
        CopySubject::disk(WHOLE, whole.whole(guard)?, Some(OVERVIEW_EVERY)),
    ];
    CopyPlan { size: in_place.size().min(whole.size()), ..plan }.measure_all(session, loads, &copiers)
}

fn field(options: &BenchOptions, bytes: u64) -> Result<Vec<AppSubject>> {
    let make = |guard, scheme, name: String| -> Result<AppSubject> {
        let stage = FilledDisk::build(&options.place, bytes)?;
        Ok(AppSubject::disk(name, stage.in_place(guard, scheme)?))
    };
    let guard = Guard::best();
    let mut all = vec![make(Guard::None, Scheme::Writeback, BASE.into())?.without_barriers()];
    all.push(make(guard, Scheme::Nt, format!("{}, no barriers", name(guard, Scheme::Nt)))?.without_barriers());
    for scheme in SCHEMES {
        all.push(make(guard, scheme, name(guard, scheme))?);
    }
    Ok(all)
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "barriers",
    about: "ordering, in process and under applications (PMBD, figures 11 and 12, table III)",
    expected_ms: [271_000, 151_000, 31_000],
    run,
    verdict: &[
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
    ],
    paper: &[
        claim("figure 11", 0.85, "reads of the whole driver, about 16 GB/s, beside the peak"),
        claim("figure 11", 0.75, "writes of the whole driver, about 11 GB/s, beside the peak"),
        claim("figure 12", 1.0, "time of applications, barriers with movntq/sfence beside none"),
        claim("figure 12", 4.1, "time of tpcc, write-back with wbinvd beside no barriers"),
        claim("table III", 0.0, "operations in a barrier: movntq and clflush none, mov wbinvd"),
    ],
    charts: &[
        values("Small writes with barriers between, by scheme (table III)", "WR *, a barrier after *"),
        values("Barriers alone, by scheme (table III)", "a barrier after *"),
        values("Reads by the whole driver (figure 11)", "RD *"),
        values("Writes by the whole driver (figure 11)", "WR *").except("*, a barrier after *"),
        ratios("Time of applications on ext4, with barriers but where told (figure 12)", "*").unit("s"),
    ],
};

#[cfg(test)]
mod tests;
