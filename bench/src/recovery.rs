//! A guest's program that is killed under load and started again (vpm.txt, figure 11): the rate over time, of dbench's shape
//! on PCM. Beside it the paper's crash: all pages are taken away from a program that goes on.
//!
//! A real kill loses the process, its mappings and its DRAM. The worker that follows opens the pool and the guest, and finds
//! each step that the one before had ended.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::guest::regions;
use crate::options::Length;
use crate::region_work::{
    BenchGuest, GuestPool, LoadShape, RegionKind, RegionLoad, RegionOrder, RegionSetup, RegionWorker, frames_bytes,
};
use crate::report::{ReportRow, claim, rows};
use crate::rounds::{Series, quantile};
use crate::session::{BenchSession, Experiment};
use crate::verdict::{figure, line, values};
use crate::{Error, Result};

/// The case with the rate by time.
const CASE: &str = "dbench on PCM";
/// A real kill, and the next process.
const KILLED: &str = "kill -9, next process";
/// The paper's crash.
const UNMAPPED: &str = "all pages unmapped";
/// The case with the time until a program is back.
const BACK: &str = "until the program runs";
/// The case with the time until its rate is back.
const RATE: &str = "until 90 % of the rate";
/// How many times as long stores to PCM take.
const PCM_TIMES: f64 = 8.0;
/// The part of the rate before the crash that counts as recovered.
const RECOVERED: f64 = 0.9;

/// The sizes of a run.
#[derive(Clone, Copy, Debug)]
struct CrashPlan {
    size: u64,
    /// Percent of the guest that have frames: the paper has 32 MB for 50 to 60.
    percent: u64,
    /// Windows that are not counted, before the crash, and behind it.
    windows: [usize; 3],
    window_ms: u64,
}

impl CrashPlan {
    fn of(length: Length) -> Self {
        Self {
            size: length.pick([56 << 20, 56 << 20, 8 << 20]),
            percent: 57,
            windows: length.pick([[50, 10, 30], [20, 6, 18], [1, 1, 2]]),
            window_ms: length.pick([200, 100, 5]),
        }
    }
}

/// The kind of crash of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CrashKind {
    Kill,
    Unmap,
}

/// What a crash cost.
#[derive(Clone, Debug)]
struct CrashFigures {
    /// MB/s of each window before the crash, and behind it.
    before: Vec<f64>,
    after: Vec<f64>,
    /// Milliseconds from the crash until the program runs again.
    back_ms: f64,
    /// Of these, the milliseconds of opening the pool and the guest.
    open_ms: f64,
    /// Steps that the program had reported before it was killed, and that the next one found.
    steps: [u64; 2],
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = CrashPlan::of(session.options.length);
    let wanted = session.wanted([CrashKind::Kill, CrashKind::Unmap], |kind| kind.name());
    let ferrite = match regions(session) {
        Ok(ferrite) => ferrite,
        Err(why) => {
            session.left_out("every crash", why);
            return Ok(());
        }
    };
    let mut all = Vec::new();
    for kind in wanted {
        session.announce(kind.name())?;
        all.push((kind.name(), crash(session, &plan, ferrite, kind)?));
    }
    add_rows(session, &plan, &all);
    Ok(())
}

impl CrashKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Kill => KILLED,
            Self::Unmap => UNMAPPED,
        }
    }
}

/// Runs the load with a crash of this kind.
fn crash(session: &mut BenchSession<'_>, plan: &CrashPlan, ferrite: &Path, kind: CrashKind) -> Result<CrashFigures> {
    let new = BenchGuest { name: "g".into(), size: plan.size, pm_bytes: frames_bytes(plan.size, plan.percent) };
    let mut pool = GuestPool::new(&session.options.place, std::slice::from_ref(&new))?;
    pool.release()?;
    let load = LoadShape::new(RegionLoad::Dbench, 0);
    let setup = || RegionSetup { write_times: PCM_TIMES, ..pool.setup(RegionKind::Full, &new, load.clone()) };
    let mut worker = RegionWorker::start(ferrite, kind.name(), setup())?;
    worker.order(&RegionOrder::Fill)?;
    let [warm, before, after] = plan.windows;
    windows(session, plan, &mut worker, warm)?;
    let before = windows(session, plan, &mut worker, before)?;
    let reported = worker.order(&RegionOrder::Run { nanos: 0, seed: 0 })?.last_step;
    let (mut back_ms, mut open_ms, mut found) = (0.0, 0.0, reported);
    match kind {
        CrashKind::Kill => {
            let half = Duration::from_millis(plan.window_ms / 2);
            worker.kill_during(&RegionOrder::Run { nanos: u64::MAX, seed: 9 }, half)?;
            let killed = Instant::now();
            worker = RegionWorker::start(ferrite, kind.name(), setup())?;
            back_ms = killed.elapsed().as_secs_f64() * 1e3;
            open_ms = worker.opened.nanos as f64 / 1e6;
            found = worker.opened.last_step;
        }
        CrashKind::Unmap => {
            let unmapped = worker.order(&RegionOrder::Unmap)?;
            back_ms += unmapped.nanos as f64 / 1e6;
        }
    }
    if found < reported {
        return Err(Error::server(kind.name(), format!("step {found} is the last: {reported} were durable")));
    }
    let after = windows(session, plan, &mut worker, after)?;
    Ok(CrashFigures { before, after, back_ms, open_ms, steps: [reported, found] })
}

/// Runs `count` windows; returns the MB/s of each.
fn windows(
    session: &mut BenchSession<'_>,
    plan: &CrashPlan,
    worker: &mut RegionWorker,
    count: usize,
) -> Result<Vec<f64>> {
    let nanos = plan.window_ms * 1_000_000;
    let window = |seed| {
        let figures = worker.order(&RegionOrder::Run { nanos, seed: seed as u64 })?;
        session.step(CASE, plan.window_ms)?;
        Ok(figures.rate())
    };
    (0..count).map(window).collect()
}

/// Adds the rate of each window beside the median before the crash, and the times. Windows are named by their begin: the
/// crash is at 0 s.
fn add_rows(session: &mut BenchSession<'_>, plan: &CrashPlan, all: &[(&'static str, CrashFigures)]) {
    let report = &mut session.report.rows;
    for (name, figures) in all {
        let usual = Series { name: (*name).into(), values: vec![quantile(&figures.before, 0.5)] };
        let first = -(figures.before.len() as i64);
        for (number, rate) in (first..).zip(figures.before.iter().chain(&figures.after)) {
            let begin_s = number as f64 * plan.window_ms as f64 / 1e3;
            let series = Series { name: (*name).into(), values: vec![*rate] };
            report.extend(rows(&format!("{begin_s:+.1} s: {CASE}"), "MB/s", &[series], &usual));
        }
        report.push(once(BACK, name, figures.back_ms));
        let recovered = figures.after.iter().position(|rate| *rate >= RECOVERED * usual.values[0]);
        match recovered {
            Some(windows) => report.push(once(RATE, name, figures.back_ms + (windows as u64 * plan.window_ms) as f64)),
            None => session.notes.push(format!("{name}: the rate did not come back to 90 %")),
        }
    }
    for (name, figures) in all.iter().filter(|(name, _)| *name == KILLED) {
        let [reported, found] = figures.steps;
        session.findings.push(format!(
            "{name}: step {reported} had ended, and the next process found step {found}; of {:.1} ms until it ran, opening \
             the pool and the guest took {:.1} ms",
            figures.back_ms, figures.open_ms
        ));
    }
}

/// A row in milliseconds that was measured once.
fn once(case: &str, subject: &str, value: f64) -> ReportRow {
    ReportRow { unit: "ms", ..ReportRow::once(case.into(), subject, value, subject, 1.0) }
}

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "recovery",
    about: "the rate of a guest's program over time, with a real kill, beside the paper's unmapping (vpm, figure 11)",
    expected_ms: [36_000, 9000, 50],
    run,
    verdict: &[
        line("milliseconds until the program runs again", BACK),
        figure("killed", KILLED).value(""),
        figure("unmapped", UNMAPPED).value(""),
        line("milliseconds until 90 % of the rate", RATE),
        figure("killed", KILLED).value("").paper("gradually"),
        figure("unmapped", UNMAPPED).value("").paper("gradually"),
        line("windows behind the crash, beside the median before it", "+*"),
        figure("killed", KILLED),
        figure("unmapped", UNMAPPED),
    ],
    paper: &[claim("figure 11", 1.0, "the rate behind a crash comes back to that before it, gradually")],
    charts: &[values("Figure 11: MB/s over time, with a crash between the parts", "*s: dbench on PCM")],
};

#[cfg(test)]
mod tests;
