//! Our file system larger than its memory (nvm-storage-hierarchy.txt, figures 3.7 to 3.16), beside file systems of the
//! kernel whose page cache has as much memory, all on the same kind of simulated, aged SSD.
//!
//! Ours runs with its own rules and with the paper's. Computed references stand beside the measured figures: exact LRU, the
//! offline bound, and Conquest's rule.
//!
//! A kernel's file system is durable after a sync, ours when a write returns. So each rate is given by that rule, and
//! again until all content is on the SSD.

use crate::file_subject::mounting;
use crate::mount_node::{BTRFS, EXT4, KernelFs, XFS};
use crate::program;
use crate::report::{claim, rows};
use crate::rounds::Series;
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, values};
use crate::{Error, Result};

mod conquest_rule;
mod kill_recovery;
mod load_trace;
mod memory_limit;
mod page_reference;
mod tier_cost;
mod tier_goals;
mod tier_plan;
mod tier_run;
mod tier_subject;
mod trace_gate;
mod write_latency;

use tier_plan::{TierLoad, TierPlan};
use tier_run::{LoadReferences, ReferenceFigures, ReferenceSize, TierFigures};
use tier_subject::{MOUNT, OURS, PAPER, SubjectKind, SubjectSize, TierSubject};

/// The kernel's file systems, the one of every run first.
const PEERS: [&KernelFs; 3] = [&EXT4, &XFS, &BTRFS];
/// A memory whose least recently used page leaves first.
const LRU: &str = "exact LRU";
/// The same, of as much memory as content has in our pool: without what names, the index and the pool's tables take.
const LRU_OF_CONTENT: &str = "exact LRU of our content";
/// Small files in memory for good, and others on the SSD behind a page cache: computed, so without rates.
const CONQUEST: &str = "Conquest's rule";
/// Milliseconds that a load is expected to take on one file system.
const LOAD_MS: u64 = 4000;

/// A load on SSDs of one size.
struct TierCase {
    load: TierLoad,
    live_percent: u64,
    name: String,
}

fn cases(plan: &TierPlan) -> Vec<TierCase> {
    let mut all = Vec::new();
    for load in plan.loads() {
        for live_percent in plan.live_percents {
            for sync_every in plan.syncs.iter().filter(|every| plan.takes(&load, *live_percent, **every)) {
                let synced = if *sync_every > 0 { format!(", synced every {sync_every}") } else { String::new() };
                let name = format!("{}, {live_percent} % live{synced}", load.name);
                all.push(TierCase { load: load.synced(*sync_every), live_percent: *live_percent, name });
            }
        }
    }
    all
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = TierPlan::of(session.options.length);
    let cases = session.wanted(cases(&plan), |case| case.name.clone());
    if let Err(why) = mounting(session) {
        session.left_out("every file system", why);
        return Ok(());
    }
    for case in &cases {
        measure_case(session, &plan, case)?;
    }
    write_latency::measure(session, &plan)?;
    tier_cost::measure(session, &plan)?;
    kill_recovery::measure(session, &plan)?;
    let lines = tier_goals::lines(&session.report.rows);
    session.findings.extend(lines);
    Ok(())
}

fn measure_case(session: &mut BenchSession<'_>, plan: &TierPlan, case: &TierCase) -> Result<()> {
    if case.load.name == "postmark" && program::find("postmark").is_none() {
        session.left_out(&case.name, "there is no postmark");
        return Ok(());
    }
    let mut all = Vec::new();
    let peers = PEERS.iter().take(plan.peers).map(|peer| SubjectKind::Kernel(peer));
    let ours = [SubjectKind::Run, SubjectKind::Paper, SubjectKind::Mount];
    let ours = ours.into_iter().take(if plan.compares_ours(&case.load) { ours.len() } else { 1 });
    for kind in ours.chain(peers) {
        let name = kind.name();
        session.announce(&format!("{} on {name}", case.name))?;
        match measure_subject(session, plan, case, kind) {
            Ok(Some(figures)) => all.push((name, figures)),
            Ok(None) => {}
            Err(Error::Interrupted) => return Err(Error::Interrupted),
            // The report keeps the other file systems, whose figures took minutes.
            Err(why) => session.left_out(&format!("{name} under {}", case.name), why),
        }
        session.step(&case.name, LOAD_MS)?;
    }
    let content_bytes = all.iter().find(|(name, _)| *name == OURS).and_then(|(_, figures)| figures.content_bytes);
    let size = ReferenceSize { memory_bytes: plan.memory_bytes, content_bytes };
    let references = tier_run::references(&case.load, size);
    if let Some(LoadReferences { small_below, .. }) = references {
        let name = &case.name;
        let small = format!("under {name}, files below {} KiB are small for {CONQUEST}", small_below >> 10);
        session.notes.push(small);
    }
    let references = references.map_or_else(Vec::new, |references| references.figures);
    add_rows(session, &case.name, &all, &references);
    Ok(())
}

fn measure_subject(
    session: &mut BenchSession<'_>,
    plan: &TierPlan,
    case: &TierCase,
    kind: SubjectKind,
) -> Result<Option<TierFigures>> {
    let ferrite = mounting(session).map_err(|why| Error::server("the mount", why))?;
    let (memory_bytes, ssd_bytes) = (plan.memory_bytes, case.load.ssd_bytes(case.live_percent));
    if let SubjectKind::Kernel(peer) = kind {
        let lacks_mkfs = program::find(peer.mkfs).is_none();
        if lacks_mkfs || peer.disk_bytes(case.load.live_bytes) > ssd_bytes {
            let why = if lacks_mkfs { format!("there is no {}", peer.mkfs) } else { "its SSD is too small".into() };
            session.left_out(&format!("{} under {}", peer.name, case.name), why);
            return Ok(None);
        }
    }
    let scratch = Scratch::new(&session.options.place)?;
    let size = SubjectSize { memory_bytes, ssd_bytes };
    let subject = TierSubject::new(kind, size, ferrite, &session.options.place)?;
    if !subject.is_limited() {
        session.left_out("the limit of the page cache", "this user may not make memory cgroups");
    }
    tier_run::measure(subject, &case.load, &scratch).map(Some)
}

/// A figure of a run.
struct TierMeasure {
    name: &'static str,
    unit: &'static str,
    of: fn(&TierFigures) -> Option<f64>,
}

const MEASURES: [TierMeasure; 14] = [
    TierMeasure { name: WRITTEN, unit: "MiB", of: |one| Some(one.written_bytes as f64 / 1048576.0) },
    TierMeasure { name: "write request", unit: "KiB", of: |one| Some(one.request_bytes / 1024.0) },
    TierMeasure { name: HITS, unit: "", of: |one| one.hit_ratio },
    TierMeasure { name: "hit ratio behind a scan", unit: "", of: |one| one.scan.as_ref().map(|scan| scan.hit_ratio) },
    TierMeasure { name: "scan", unit: "MB/s", of: |one| one.scan.as_ref().map(|scan| scan.rate) },
    TierMeasure { name: "content in memory", unit: "MiB", of: |one| Some(one.content_bytes? as f64 / 1048576.0) },
    TierMeasure { name: "recycled", unit: "pages", of: |one| Some(one.cleaning?.recycled_pages as f64) },
    TierMeasure { name: "cleaning efficiency", unit: "", of: |one| one.cleaning?.efficiency() },
    TierMeasure { name: "operations", unit: "1/s", of: |one| Some(one.rate) },
    TierMeasure { name: "operations, drained", unit: "1/s", of: |one| Some(one.drained_rate) },
    TierMeasure { name: "erases, page-level", unit: "erase", of: |one| Some(one.flash[0].erases as f64) },
    TierMeasure { name: "erases, FAST", unit: "erase", of: |one| Some(one.flash[1].erases as f64) },
    TierMeasure { name: "copied per erase, page-level", unit: "pages", of: |one| Some(one.flash[0].copied_per_erase) },
    TierMeasure { name: "copied per erase, FAST", unit: "pages", of: |one| Some(one.flash[1].copied_per_erase) },
];

/// The measures that references have too.
const WRITTEN: &str = "written to the SSD";
const HITS: &str = "hit ratio";

/// Adds the rows of one case: each figure of each subject, beside the first peer.
fn add_rows(
    session: &mut BenchSession<'_>,
    case: &str,
    all: &[(&'static str, TierFigures)],
    references: &[ReferenceFigures],
) {
    for measure in &MEASURES {
        let of = |(name, figures): &(&str, TierFigures)| {
            Some(Series { name: (*name).into(), values: vec![(measure.of)(figures)?] })
        };
        let mut series: Vec<Series> = all.iter().filter_map(of).collect();
        for reference in references {
            let value = match measure.name {
                WRITTEN => reference.written_bytes.map(|bytes| bytes as f64 / 1048576.0),
                HITS => reference.hit_ratio,
                _ => None,
            };
            series.extend(value.map(|value| Series { name: reference.name.into(), values: vec![value] }));
        }
        let positive = |names: &[&str]| {
            let found = series.iter().find(|one| names.contains(&&*one.name) && one.values[0] > 0.0);
            found.cloned()
        };
        let peers = PEERS.map(|peer| peer.name);
        let beside = positive(&peers).or_else(|| positive(&[PAPER])).or_else(|| positive(&[OURS, MOUNT]));
        if let Some(beside) = beside {
            let name = format!("{case}: {}", measure.name);
            session.report.rows.extend(rows(&name, measure.unit, &series, &beside));
        }
    }
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "nvmfs",
    about: "a file system larger than its memory, beside the kernel's on the same SSD (nvm-storage-hierarchy, figures 3.7 to 3.16)",
    expected_ms: [1_500_000, 90_000, 20_000],
    run,
    verdict: &[
        line("p99 of a durable write while segments are written, beside none, wanted 2 at most", write_latency::CASE),
        figure("", write_latency::DESTAGING),
        line("4 KiB requests to what memory holds, with a tier beside none, wanted 0.97 at least", "tier or none: *"),
        figure("reads", OURS).case("reads").fine(),
        figure("overwrites", OURS).case("overwrites").fine(),
    ],
    paper: &[
        claim("figure 3.7", 0.5, "sectors written to the SSD under Filebench beside the other file systems"),
        claim("figure 3.13", 1.989, "throughput on an SSD of 50 to 70 %, mean over workloads and file systems"),
        claim("figure 3.14", 1.196, "throughput on an SSD of more than 85 %, mean over workloads and file systems"),
    ],
    charts: &[
        values("Figures 3.7 and 3.9: MiB written to the SSD", "*: written to the SSD"),
        values("Figure 3.8: hit ratio in memory", "*: hit ratio"),
        values("Figure 3.10: KiB of a write request", "*: write request"),
        values("Figure 3.11: erases of a page-level drive", "*: erases, page-level"),
        values("Figure 3.11: erases of a FAST drive", "*: erases, FAST"),
        values("Figure 3.12: copied per erase of a page-level drive", "*: copied per erase, page-level"),
        values("Figure 3.12: copied per erase of a FAST drive", "*: copied per erase, FAST"),
        values("Figure 3.13: durable operations a second, 60 % live", "*60 % live*: operations"),
        values("Figure 3.14: durable operations a second, 90 % live", "*90 % live*: operations"),
        values("Figure 3.15: recycled pages of 4 KiB", "*: recycled"),
        values("Figure 3.16: cleaning efficiency", "*: cleaning efficiency"),
    ],
};

#[cfg(test)]
mod tests;
