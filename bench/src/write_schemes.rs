//! How stores reach the medium (pmbd.txt, figures 9 and 10): schemes beside plain cached stores without a guard, by small
//! and large writes in process, and by applications on a file system that never flushes.
//!
//! The disk overwrites in place, as the paper's does.

use std::sync::Arc;

use ferrite_block::{BlockDisk, DiskOptions};
use ferrite_memory::{Guard, Scheme};

use crate::Result;
use crate::applications::{Contestant, Plan};
use crate::micro::{self, Racer};
use crate::options::{OnProgress, Options};
use crate::protection::load::Load;
use crate::protection::stage::Stage;
use crate::report::{Claim, Measure, Report};
use crate::session::{Session, Subject};
use crate::verdict;

/// What everything stands beside.
const BASE: &str = "no guard, writeback";
/// The schemes under the guard, as the paper orders them, then what it did not have or did not consider.
const SCHEMES: [Scheme; 6] =
    [Scheme::Writeback, Scheme::Nt, Scheme::Clflush, Scheme::Clflushopt, Scheme::Clwb, Scheme::Writethrough];
/// Those that applications run on.
const FOR_APPLICATIONS: [Scheme; 3] = [Scheme::Writeback, Scheme::Nt, Scheme::Clflush];

/// Those of `schemes` that stand beside [`BASE`] under the best guard: where there is none, cached stores are that.
fn guarded<const N: usize>(schemes: [Scheme; N]) -> impl Iterator<Item = Scheme> {
    schemes.into_iter().filter(|scheme| name(Guard::best(), *scheme) != BASE)
}

/// A guard and a scheme as one name.
pub fn name(guard: Guard, scheme: Scheme) -> String {
    let guard = if guard == Guard::None { "no guard" } else { guard.name() };
    format!("{guard}, {}", scheme.name())
}

/// The disk of `stage`, overwritten in place by `scheme` under `guard`.
pub fn disk(stage: &Stage, guard: Guard, scheme: Scheme) -> Result<Arc<BlockDisk>> {
    let options = DiskOptions { scheme, in_place: true, ..DiskOptions::default() };
    stage.disk_on(Arc::new(stage.map(guard)?), options)
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let (plan, applications) = (micro::Plan::of(options.length), Plan::of(options.length, APPLICATIONS));
    let loads = micro::loads(&[true], &[4 << 10, 256 << 10], &[1, options.threads_many]);
    let total_ms = plan.total_ms(&loads, SCHEMES.len() + 1) + applications.total_ms(FOR_APPLICATIONS.len() + 1);
    let subject = Subject { experiment: "write-schemes", paper: &PAPER, total_ms };
    let mut session = Session::new(&subject, options, on_progress);
    let loads = session.wanted(&loads);
    if !loads.is_empty() {
        in_process(&mut session, &loads, plan)?;
    }
    let notes = applications.run(&mut session, BASE, |bytes| field(options, bytes))?;
    let verdict = verdict_of(&session.report, notes);
    Ok(session.end(verdict))
}

const APPLICATIONS: &str = "Time of applications on ext4 without barriers, by guard and scheme (figure 10)";

fn in_process(session: &mut Session<'_>, loads: &[Load], plan: micro::Plan) -> Result<()> {
    session.tell("filling a disk")?;
    let stage = Stage::build(&session.options.place, plan.disk_bytes)?;
    let mut racers = vec![Racer::new(BASE, disk(&stage, Guard::None, Scheme::Writeback)?)];
    for scheme in guarded(SCHEMES).filter(|scheme| scheme.ensure_available().is_ok()) {
        racers.push(Racer::new(name(Guard::best(), scheme), disk(&stage, Guard::best(), scheme)?));
    }
    micro::Plan { size: stage.size(), ..plan }.measure_all(session, loads, &racers)?;
    session.chart("Writes in process by scheme (figure 9)", Measure::Value, loads.iter().map(Load::name).collect());
    Ok(())
}

/// A disk for each scheme: all are in use at once, each with a file system of its own.
fn field(options: &Options, bytes: u64) -> Result<Vec<Contestant>> {
    let guarded = guarded(FOR_APPLICATIONS).map(|scheme| (Guard::best(), scheme));
    let all = [(Guard::None, Scheme::Writeback)].into_iter().chain(guarded);
    let contestant = |(guard, scheme)| {
        let stage = Stage::build(&options.place, bytes)?;
        let contestant = Contestant::disk(name(guard, scheme), disk(&stage, guard, scheme)?);
        Ok(contestant.without_barriers())
    };
    all.map(contestant).collect()
}

/// Who is ahead at 4K with many in flight, where the paper's clflush was.
fn crowded(report: &Report) -> String {
    let of = |scheme| {
        let name = name(Guard::best(), scheme);
        verdict::range(report, move |row| {
            row.subject == name && row.case.contains(" 4K Q") && !row.case.ends_with(" 4K Q1")
        })
    };
    match (of(Scheme::Nt), of(Scheme::Clflush)) {
        (Some(nt), Some(clflush)) if nt.least > clflush.least && nt.most > clflush.most => {
            "; it is not ahead at 4K with many in flight as in the paper: a 64-byte non-temporal store fills a line at once, \
             and waits in no write-combining buffer"
                .into()
        }
        (Some(_), Some(_)) => "; it is ahead at 4K with many in flight, as in the paper".into(),
        _ => String::new(),
    }
}

fn verdict_of(report: &Report, notes: Vec<String>) -> String {
    let guard = Guard::best();
    let of = |scheme: Scheme| name(guard, scheme);
    let in_process = |scheme: Scheme, case: &'static str| {
        verdict::range(report, |row| row.subject == of(scheme) && row.case.starts_with("WR") && row.case.contains(case))
    };
    let mut parts = Vec::new();
    if let (Some(small), Some(large)) = (in_process(Scheme::Nt, " 4K"), in_process(Scheme::Nt, " 256K")) {
        parts.push(format!(
            "nt: {small} of cached stores without a guard at 4K, {large} at 256K (paper: the best but for 4K Q32)"
        ));
    }
    if let (Some(small), Some(large)) = (in_process(Scheme::Clflush, " 4K"), in_process(Scheme::Clflush, " 256K")) {
        parts.push(format!("clflush: {small} and {large}{}", crowded(report)));
    }
    parts.extend(
        in_process(Scheme::Writethrough, "")
            .map(|range| format!("write-through, which the paper leaves out as too slow: {range}")),
    );
    let of_applications = |scheme: Scheme| verdict::range(report, |row| row.unit == "s" && row.subject == of(scheme));
    if let (Some(nt), Some(clflush)) = (of_applications(Scheme::Nt), of_applications(Scheme::Clflush)) {
        parts.push(format!(
            "applications take {nt} times as long with nt and {clflush} with clflush (paper: nt about 1, clflush worst): on the \
             way through the /dev node the copy is the least part"
        ));
    }
    verdict::join(report, parts, notes)
}

const PAPER: [Claim; 4] = [
    Claim {
        place: "figure 9",
        what: "movntq/sfence is the best but at 4K with 32 in flight, there clflush/mfence",
        ratio: 1.0,
    },
    Claim {
        place: "figure 10",
        what: "applications, movntq/sfence beside private mapping without persistence: comparable",
        ratio: 1.0,
    },
    Claim { place: "figure 8", what: "WR SEQ 256K Q32, private mapping beside no protection", ratio: 0.90 },
    Claim {
        place: "IV.C.1",
        what: "pages mapped uncachable or write-through: extremely slow, not considered",
        ratio: 0.0,
    },
];
