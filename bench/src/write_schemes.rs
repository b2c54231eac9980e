//! How stores reach the medium (pmbd.txt, figures 9 and 10): schemes beside plain cached stores without a guard, by small
//! and large writes in process, and by applications on a file system that never flushes.
//!
//! The disk overwrites in place, as the paper's does.

use ferrite_memory::{Guard, Scheme};

use crate::Result;
use crate::applications::{AppPlan, AppSubject};
use crate::copy_plan::{self, CopyPlan, CopySubject};
use crate::options::BenchOptions;
use crate::protection::copy_load::CopyLoad;
use crate::protection::filled_disk::FilledDisk;
use crate::report::claim;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios, remark, values};

/// The subject that all are compared with.
const BASE: &str = "no guard, writeback";
/// The schemes under the guard in the paper's order, then those that the paper lacks or does not consider.
const SCHEMES: [Scheme; 6] =
    [Scheme::Writeback, Scheme::Nt, Scheme::Clflush, Scheme::Clflushopt, Scheme::Clwb, Scheme::Writethrough];
/// The schemes of applications.
const FOR_APPLICATIONS: [Scheme; 3] = [Scheme::Writeback, Scheme::Nt, Scheme::Clflush];

/// The schemes of `schemes` under the best guard, without [`BASE`] itself, which is among them if there is no guard.
fn guarded<const N: usize>(schemes: [Scheme; N]) -> impl Iterator<Item = Scheme> {
    schemes.into_iter().filter(|scheme| name(Guard::best(), *scheme) != BASE)
}

/// The name of a guard and a scheme.
pub fn name(guard: Guard, scheme: Scheme) -> String {
    let guard = if guard == Guard::None { "no guard" } else { guard.name() };
    format!("{guard}, {}", scheme.name())
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let loads = copy_plan::loads(&[true], &[4 << 10, 256 << 10], &[1, options.threads_many]);
    let loads = session.wanted(loads, CopyLoad::name);
    if !loads.is_empty() {
        in_process(session, &loads, CopyPlan::of(options.length))?;
    }
    AppPlan::of(options.length).run(session, BASE, |bytes| field(options, bytes))
}

fn in_process(session: &mut BenchSession<'_>, loads: &[CopyLoad], plan: CopyPlan) -> Result<()> {
    session.announce("filling a disk")?;
    let stage = FilledDisk::build(&session.options.place, plan.disk_bytes)?;
    let mut copiers = vec![CopySubject::disk(BASE, stage.in_place(Guard::None, Scheme::Writeback)?, None)];
    for scheme in guarded(SCHEMES).filter(|scheme| scheme.ensure_available().is_ok()) {
        copiers.push(CopySubject::disk(name(Guard::best(), scheme), stage.in_place(Guard::best(), scheme)?, None));
    }
    CopyPlan { size: stage.size(), ..plan }.measure_all(session, loads, &copiers)
}

/// A disk for each scheme: all are in use at once, each with a file system of its own.
fn field(options: &BenchOptions, bytes: u64) -> Result<Vec<AppSubject>> {
    let guarded = guarded(FOR_APPLICATIONS).map(|scheme| (Guard::best(), scheme));
    let all = [(Guard::None, Scheme::Writeback)].into_iter().chain(guarded);
    let contestant = |(guard, scheme)| {
        let stage = FilledDisk::build(&options.place, bytes)?;
        Ok(AppSubject::disk(name(guard, scheme), stage.in_place(guard, scheme)?).without_barriers())
    };
    all.map(contestant).collect()
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "write-schemes",
    about: "ways of storing, in process and under applications (PMBD, figures 9 and 10)",
    expected_ms: [172_000, 100_000, 20_000],
    run,
    verdict: &[
        line("writes in process beside cached stores without a guard", "WR *"),
        figure("nt at 4K, the best in the paper except at Q32,", "*, nt").case(" 4K *"),
        figure("nt at 256K, the best in the paper,", "*, nt").case(" 256K *"),
        figure("clflush at 4K", "*, clflush").case(" 4K *"),
        figure("clflush at 256K", "*, clflush").case(" 256K *"),
        figure("write-through, which the paper leaves out as too slow,", "*, writethrough"),
        line("4K writes with many in flight, where clflush is ahead in the paper", "WR * 4K Q*"),
        figure("nt", "*, nt").except("*Q1"),
        figure("clflush", "*, clflush").except("*Q1"),
        remark("a 64-byte non-temporal store fills a line at once and does not wait in a write-combining buffer"),
        line("time of applications", "*"),
        figure("nt", "*, nt").unit("s").paper("about 1"),
        figure("clflush", "*, clflush").unit("s").paper("the worst"),
        remark("through the /dev node the copy is the smallest part of a request"),
    ],
    paper: &[
        claim("figure 9", 1.0, "movntq/sfence is the best but at 4K with 32 in flight, there clflush/mfence"),
        claim("figure 10", 1.0, "applications, movntq/sfence beside private mapping without persistence: comparable"),
        claim("figure 8", 0.90, "WR SEQ 256K Q32, private mapping beside no protection"),
        claim("IV.C.1", 0.0, "pages mapped uncachable or write-through: extremely slow, not considered"),
    ],
    charts: &[
        values("Writes in process by scheme (figure 9)", "*").unit("MB/s"),
        ratios("Time of applications on ext4 without barriers, by guard and scheme (figure 10)", "*").unit("s"),
    ],
};

#[cfg(test)]
mod tests;
