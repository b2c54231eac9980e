//! Several SSDs as one cache (nvm-storage-hierarchy.txt, figures 4.5 to 4.7): dirty pages on two SSDs and clean ones on one,
//! beside a mirror of both SSDs, on simulated drives and a clock that jumps from event to event.
//!
//! The paper's file size is not given. Here both SSDs together are 60 % of the file, then 30 % less as in figure 4.7.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::options::Length;
use crate::report::{ReportRow, claim, rows};
use crate::rounds::Series;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, ratios, values};
use crate::{Result, machine};

mod cache_kind;
mod closed_loop;
mod destage_latency;
mod drive_set;
mod guest_load;
mod guest_peers;
mod killed;

pub use guest_load::{ARGUMENT as GUEST_LOAD, GuestLoad};

use cache_kind::{CacheKind, MultiCase, MultiFigures, SimSizes, measure};

/// The subject that all are compared with.
const BASELINE: &str = "RAID-1";
/// Milliseconds that a run is expected to take.
const RUN_MS: u64 = 4000;

fn sizes(length: Length) -> SimSizes {
    let file_bytes = length.pick([512 << 20, 128 << 20, 1 << 20]);
    let leb_bytes = length.pick([512 << 10, 128 << 10, 16 << 10]);
    let warm_windows = length.pick([[6, 12], [6, 10], [2, 2]]);
    SimSizes { file_bytes, leb_bytes, buffer_bytes: leb_bytes * 16, warm_windows }
}

fn cases(length: Length) -> Vec<MultiCase> {
    let of = |reads_permille, theta, flash_percent| MultiCase { reads_permille, theta, flash_percent };
    let mixes = [900, 500];
    let flash: &[u64] = length.pick([&[60, 42, 30, 90], &[60], &[60]]);
    let paper = flash.iter().flat_map(|flash| mixes.map(|reads| of(reads, 0.5, *flash)));
    let skewed = mixes.map(|reads| of(reads, 0.9, 60)).into_iter().filter(|_| length == Length::Full);
    paper.chain(skewed).collect()
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let sizes = sizes(session.options.length);
    let cases = session.wanted(cases(session.options.length), MultiCase::name);
    let jobs: Vec<(MultiCase, CacheKind)> =
        cases.iter().flat_map(|case| CacheKind::ALL.map(|(_, kind)| (*case, kind))).collect();
    let mut figures = run_all(session, &jobs, &sizes)?.into_iter();
    for case in &cases {
        let figures: Vec<MultiFigures> = figures.by_ref().take(CacheKind::ALL.len()).collect();
        add_rows(session, case, &figures);
    }
    destage_latency::measure(session, &sizes)?;
    killed::measure(session, &sizes)?;
    guest_peers::measure(session)
}

/// Runs all jobs, as many at once as there are processors: no figure depends on the host's time.
fn run_all(
    session: &mut BenchSession<'_>,
    jobs: &[(MultiCase, CacheKind)],
    sizes: &SimSizes,
) -> Result<Vec<MultiFigures>> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let all: Mutex<Vec<Option<Result<MultiFigures>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let (ended, ends) = mpsc::channel();
    let work = |ended: mpsc::Sender<usize>| {
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some((case, kind)) = jobs.get(index)
        {
            let figures = measure(*kind, case, sizes, &is_over);
            all.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(figures);
            let _ = ended.send(index);
        }
    };
    let watched = thread::scope(|scope| {
        for _ in 0..machine::cores() {
            let ended = ended.clone();
            scope.spawn(|| work(ended));
        }
        drop(ended);
        let watched = ends.iter().try_for_each(|index| session.step(&jobs[index].0.name(), RUN_MS));
        if watched.is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        watched
    });
    watched?;
    let all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.into_iter().map(|figures| figures.expect("each job was run")).collect()
}

/// A figure of a run.
struct MultiMeasure {
    name: &'static str,
    unit: &'static str,
    of: fn(&MultiFigures) -> Option<f64>,
}

const MEASURES: [MultiMeasure; 6] = [
    MultiMeasure { name: "requests", unit: "1/s", of: |figures| Some(figures.rate) },
    MultiMeasure { name: "hit ratio", unit: "", of: |figures| Some(figures.hit_ratio).filter(|ratio| *ratio > 0.0) },
    MultiMeasure {
        name: "SSD bytes a byte",
        unit: "",
        of: |figures| Some(figures.ssd_bytes_per_byte).filter(|bytes| *bytes > 0.0),
    },
    MultiMeasure { name: "LEBs of SSD 0", unit: "", of: |figures| inserts(figures, 0) },
    MultiMeasure { name: "LEBs of SSD 1", unit: "", of: |figures| inserts(figures, 1) },
    MultiMeasure { name: "disk requests", unit: "1/k", of: |figures| Some(figures.hdd_requests) },
];

fn inserts(figures: &MultiFigures, ssd: usize) -> Option<f64> {
    Some(figures.inserts[ssd] as f64).filter(|count| *count > 0.0)
}

/// Adds the rows of one case: a figure of each subject, beside the mirror's.
fn add_rows(session: &mut BenchSession<'_>, case: &MultiCase, figures: &[MultiFigures]) {
    let subjects = CacheKind::ALL.map(|(name, _)| name);
    for measure in &MEASURES {
        let name = format!("{}: {}", case.name(), measure.name);
        session.report.rows.extend(measure.rows(&name, &subjects, figures, BASELINE));
    }
}

impl MultiMeasure {
    /// Returns the rows of the case `name`: a figure of each subject, beside the one called `beside`. There are none if that
    /// one has no figure.
    fn rows(&self, name: &str, subjects: &[&str], figures: &[MultiFigures], beside: &str) -> Vec<ReportRow> {
        let of = |(name, figures): (&&str, &MultiFigures)| {
            Some(Series { name: (*name).into(), values: vec![(self.of)(figures)?] })
        };
        let series: Vec<Series> = subjects.iter().zip(figures).filter_map(of).collect();
        let beside = series.iter().find(|one| one.name == beside);
        beside.map_or_else(Vec::new, |beside| rows(name, self.unit, &series, beside))
    }
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "multi-ssd",
    about: "two SSDs as one cache, dirty pages twice, beside RAID-1 (nvm-storage-hierarchy, figures 4.5 to 4.7)",
    expected_ms: [1_800_000, 60_000, 3000],
    run,
    verdict: &[
        line("requests a second beside RAID-1, flash of 60 % of the file, wanted 1.3 and 1.2", ""),
        figure("9:1", "ferrite").case("9:1, zipf 0.5, flash 60 %: requests").paper("1.2 to 1.3"),
        figure("1:1", "ferrite").case("1:1, zipf 0.5, flash 60 %: requests").paper("1.2 to 1.3"),
        line("hit ratio of reads beside RAID-1", "*: hit ratio"),
        figure("every size", "ferrite").paper("above 1"),
        line("beside the paper's policy, 9:1", "9:1, zipf 0.5*"),
        figure("hits", "ferrite").case(": hit ratio").beside("the paper's policy").fine(),
        figure("bytes written to SSDs", "ferrite").case(": SSD bytes a byte").beside("the paper's policy"),
        line("beside the paper's policy, 1:1", "1:1, zipf 0.5*"),
        figure("hits", "ferrite").case(": hit ratio").beside("the paper's policy").fine(),
        figure("bytes written to SSDs", "ferrite").case(": SSD bytes a byte").beside("the paper's policy"),
        line(
            "p99 of a request while all dirty pages are destaged, beside none, wanted 2 at most",
            "*: p99 of a request",
        ),
        figure("9:1", "destaging").case("").except("1:1*"),
        figure("1:1", "destaging").case("").except("9:1*"),
        line("in a guest, beside bcache on RAID-1, 9:1, wanted 1.3 requests", "guest, 9:1*"),
        figure("requests", "ferrite").case(" rate"),
        figure("hits", "ferrite").case(" hits"),
        figure("bytes written to SSDs", "ferrite").case(" SSD bytes"),
        line("in a guest, beside bcache on RAID-1, 1:1", "guest, 1:1*"),
        figure("requests", "ferrite").case(" rate"),
        figure("hits", "ferrite").case(" hits"),
        figure("bytes written to SSDs", "ferrite").case(" SSD bytes"),
        line("requests a second while an SSD dies and is replaced", ""),
        figure("before", "ferrite").case("before*").value(""),
        figure("while it is dead", "ferrite").case("dead*").value(""),
        figure("after it is replaced", "ferrite").case("replaced*").value(""),
    ],
    paper: &[
        claim("figure 4.5", 1.3, "throughput, dirty pages twice beside RAID-1, read-intensive, at best"),
        claim("figure 4.5", 1.2, "throughput, dirty pages twice beside RAID-1, at least"),
        claim("figures 4.6 and 4.7", 1.0, "hit ratio beside RAID-1: higher, by figures without numbers"),
    ],
    charts: &[
        values("Figure 4.5: requests a second", "*zipf 0.5*: requests"),
        values("Figures 4.6 and 4.7: hit ratio of reads", "*zipf 0.5*: hit ratio"),
        ratios("A request's p99 while dirty pages are destaged", "*: p99 of a request"),
        values("Requests a second while an SSD dies and is replaced", "*: an SSD dies and is replaced"),
        values("Bytes written to SSDs for each byte of clients", "*: SSD bytes a byte"),
    ],
};

#[cfg(test)]
mod tests;
