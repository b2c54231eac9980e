//! The last-level cache before a memory that wears (nvm-storage-hierarchy.txt, chapter 2, figures 2.1 and 2.5 to 2.14):
//! real programs, recorded as they run, under every policy at once.
//!
//! The paper's programs cannot be had freely; Debian's of the same kinds stand in for them, on inputs that are made here
//! and are the same everywhere. A program that is not installed is left out, and the verdict says so.

use ferrite_sim::cache::wear::{Levelling, WearModel};
use ferrite_sim::cache::{
    CacheEvent, CacheModel, CacheShape, PolicyDefaults, PolicyFigures, Study, StudyEnd, StudyProgress, StudyReport,
};
use ferrite_sim::record::{Program, ProgramOutput, Recording, RunningProgram};
use ferrite_sim::trace::FirstLevel;

use crate::options::{OnProgress, Options};
use crate::report::{BOUND, Claim, Measure, Report, Row};
use crate::scratch::Scratch;
use crate::session::{Session, Subject};
use crate::{Error, Result};

mod control;
mod inputs;
mod judged;
mod means;
mod programs;
mod sizes;
mod speed;
mod traced;
mod verdict;

use control::Control;
use inputs::Inputs;
use programs::Entry;
use sizes::SIZES;
use speed::Kept;

/// Ways of the last level.
const WAYS: u32 = 16;

/// Those that stand for hmmer in figure 2.14, for Debian's writes hardly anything back, and for soplex in figure 2.13.
const DIVIDED: &str = "awk";
const SORTED: &str = "bzip2";

/// The one whose accesses are taken from a file, too.
const TRACED: &str = "gzip";

/// The first level of each core.
const FIRST: FirstLevel =
    FirstLevel { shape: CacheShape { bytes: 64 << 10, ways: 2, line_bytes: 64 }, cores: 1, instructions: false };

/// What is compared for each program: the figure with one thread, with eight, and what it shows.
const FIGURES: [(&str, &str, &str, Of); 4] = [
    ("2.5", "2.9", "lifetime", |one| one.lifetime_gain),
    ("2.6", "2.10", "energy", |one| one.energy_nj),
    ("2.7", "2.11", "writebacks", |one| one.writebacks as f64),
    ("2.8", "2.12", "misses", |one| one.misses() as f64),
];

/// What is drawn by itself, and how the cases begin that it shows.
const ALONE: [(&str, &str); 4] = [
    ("writebacks of a dirty line (figure 2.1)", "2.1 "),
    ("writes of the lines, sorted (figure 2.13)", "2.13 "),
    ("accesses of each part, of an even share (figure 2.14)", "2.14 accesses"),
    ("writebacks an access, of each part (figure 2.14)", "2.14 writebacks"),
];

type Of = fn(&PolicyFigures) -> f64;

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let scratch = Scratch::new(&options.place)?;
    let inputs = Inputs::make(&scratch, options.length)?;
    let (ready, missing) = programs::ready(options);
    let subject = Subject { experiment: "llc", paper: &PAPER, total_ms: 1000 * ready.len() as u64 };
    let mut session = Session::new(&subject, options, on_progress);
    let mut studied = Vec::new();
    for entry in ready {
        session.tell(entry.name)?;
        let (all, control) = study(&mut session, entry, &inputs)?;
        let report = &all[own_size(entry)];
        add_rows(&mut session.report, entry, report);
        for (size, report) in SIZES.into_iter().zip(&all) {
            session.report.rows.extend(sizes::rows(size, entry.name, report));
        }
        if entry.name == TRACED {
            traced::measure(&mut session, entry, &inputs, &scratch.path("trace"))?;
        }
        control.into_iter().for_each(|control| control.add_rows(&mut session.report.rows, report));
        session.steps.step(entry.name, 1000)?;
        studied.push((entry, all));
    }
    for (is_threaded, figure) in [(false, 0), (true, 1)] {
        let reports = at_own_size(&studied, |entry| entry.is_threaded == is_threaded);
        for shown in FIGURES {
            let place = [shown.0, shown.1][figure];
            session.report.rows.extend(means::rows(place, (shown.2, shown.3), &reports));
        }
    }
    for (group, is_held_out) in judged::GROUPS {
        let reports = at_own_size(&studied, |entry| entry.is_held_out == is_held_out);
        session.report.rows.extend(judged::rows(group, &reports));
    }
    for (at, size) in SIZES.into_iter().enumerate() {
        let reports: Vec<&StudyReport> = studied.iter().map(|(_, all)| &all[at]).collect();
        session.report.rows.extend(sizes::means(size, &reports));
    }
    charts(&mut session);
    let verdict = verdict::of(&session.report, missing);
    Ok(session.end(verdict))
}

/// What each size gave of each program.
type AllStudied<'a> = [(&'a Entry, Vec<StudyReport>)];

/// The reports of the programs of a kind, each at its own size.
fn at_own_size<'a>(studied: &'a AllStudied<'_>, is_of_kind: impl Fn(&Entry) -> bool) -> Vec<&'a StudyReport> {
    let of_kind = studied.iter().filter(|(entry, _)| is_of_kind(entry));
    of_kind.map(|(entry, all)| &all[own_size(entry)]).collect()
}

/// The place in [`SIZES`] of the size that the paper has for a program.
fn own_size(entry: &Entry) -> usize {
    let own = if entry.is_threaded { 8 } else { 2 };
    SIZES.iter().position(|size| *size == own).unwrap_or(0)
}

/// Records a program and simulates it under every policy, at every size.
fn study(session: &mut Session<'_>, entry: &Entry, inputs: &Inputs) -> Result<(Vec<StudyReport>, Option<Control>)> {
    let own = own_size(entry);
    let llc = model(SIZES[own]).llc;
    let mut control = (entry.name == DIVIDED).then(|| Control::new(llc)).transpose()?;
    let mut kept = Kept::of(entry.name, llc)?;
    let mut studies =
        SIZES.into_iter().map(|size| Study::new(model(size))).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut study = studies.remove(own);
    let recording = start(entry, inputs, FIRST)?;
    let running = recording.program();
    let on_events = |events: &[CacheEvent]| {
        control.iter_mut().for_each(|control| control.feed(events));
        kept.feed(events);
        studies.iter_mut().for_each(|study| study.feed(events));
        Ok(())
    };
    let mut watch = |seen: StudyProgress| {
        session.tell(&format!("{}, {} M accesses", entry.name, seen.accesses / 1_000_000)).is_ok()
    };
    let end = study.consume(Box::new(recording), on_events, &mut watch)?;
    finish(entry, &running, end)?;
    kept.measure(session)?;
    studies.insert(own, study);
    Ok((studies.into_iter().map(|study| study.finish(entry.name)).collect(), control))
}

/// Starts a program that is recorded, behind a first level.
fn start(entry: &Entry, inputs: &Inputs, first: FirstLevel) -> Result<Recording> {
    let folder = Some(inputs.folder().to_owned());
    Ok(Program { words: entry.words(inputs), folder, output: ProgramOutput::Discarded }.start(first)?)
}

/// Its end, which is as it should be.
fn finish(entry: &Entry, running: &RunningProgram, end: StudyEnd) -> Result<()> {
    let status = running.finish(end);
    if end == StudyEnd::Stopped {
        return Err(Error::Interrupted);
    }
    if status.is_none_or(|status| status.code() != Some(entry.status)) {
        let what = format!("it ended with {} under qemu-user", status.map_or("nothing".into(), |one| one.to_string()));
        return Err(Error::Server { who: entry.name.into(), what });
    }
    Ok(())
}

/// With a last level of so many MiB.
fn model(size: u64) -> CacheModel {
    CacheModel {
        llc: CacheShape { bytes: size << 20, ways: WAYS, line_bytes: 64 },
        choices: PolicyDefaults::of(WAYS).usual(),
        fetch_on_write_miss: false,
        wear: WearModel { levelling: Levelling::RandomizedStartGap, ..WearModel::default() },
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    }
}

fn add_rows(report: &mut Report, entry: &Entry, studied: &StudyReport) {
    let lru = &studied.policies[0];
    let rewrites = lru.rewrites();
    report.rows.push(row(format!("2.1 {}: writebacks of a dirty line", entry.name), "lru", (rewrites, rewrites)));
    for (single, threaded, what, of) in FIGURES {
        let place = if entry.is_threaded { threaded } else { single };
        let case = format!("{place} {what}, {}", entry.name);
        report.rows.extend(studied.policies.iter().map(|one| row(case.clone(), &one.policy, (of(one), of(lru)))));
    }
    let place = if entry.is_threaded { "2.11" } else { "2.7" };
    let case = format!("{place} writebacks, {}", entry.name);
    report.rows.push(row(case, BOUND, (studied.bound.writebacks as f64, lru.writebacks as f64)));
    if entry.name == SORTED {
        distribution(report, studied);
    }
}

/// Figure 2.13: the lines sorted by how often they were written.
fn distribution(report: &mut Report, studied: &StudyReport) {
    let sorted = |one: &PolicyFigures| {
        let mut writes = one.writes.clone();
        writes.sort_unstable();
        writes
    };
    let lru = sorted(&studied.policies[0]);
    let at = |writes: &[u64], share: f64| {
        writes.get(((writes.len() - 1) as f64 * share) as usize).copied().unwrap_or(0) as f64
    };
    for share in [0.5, 0.9, 0.99, 0.999, 1.0] {
        let case = format!("2.13 {SORTED}, line at {} %: writes", share * 100.0);
        for one in studied.policies.iter().filter(|one| one.dirty_lines > 0) {
            report.rows.push(row(case.clone(), &one.policy, (at(&sorted(one), share), at(&lru, share))));
        }
    }
}

/// A value beside that of LRU.
fn row(case: String, subject: &str, (value, lru): (f64, f64)) -> Row {
    let ratio = if lru == 0.0 { 1.0 } else { value / lru };
    Row { case, subject: subject.into(), unit: "", value, beside: "lru".into(), ratio, low: ratio, high: ratio }
}

fn charts(session: &mut Session<'_>) {
    let of = |begin: &str| {
        let mut cases: Vec<String> = Vec::new();
        for row in session.report.rows.iter().filter(|row| row.case.starts_with(begin)) {
            if !cases.contains(&row.case) {
                cases.push(row.case.clone());
            }
        }
        cases
    };
    let beside =
        |(place, what)| (format!("{what} beside LRU (figure {place})"), Measure::Ratio, of(&format!("{place} ")));
    let compared =
        FIGURES.iter().flat_map(|(single, threaded, what, _)| [(single, what), (threaded, what)]).map(beside);
    let by_size = |what| {
        let cases = SIZES.map(|size| judged::case(&sizes::group(size), what)).to_vec();
        (format!("{what}, by size of the cache"), Measure::Ratio, cases)
    };
    let by_size = [judged::LIFETIME, judged::LEAST, judged::MOST].map(by_size);
    let alone = ALONE.iter().map(|(title, begin)| ((*title).to_owned(), Measure::Value, of(begin)));
    let all: Vec<(String, Measure, Vec<String>)> = compared.chain(by_size).chain(alone).collect();
    for (title, measure, cases) in all.into_iter().filter(|one| !one.2.is_empty()) {
        session.chart(&title, measure, cases);
    }
}

const PAPER: [Claim; 10] = [
    Claim { place: "figure 2.5", what: "lifetime of Protect-1 in four partitions beside LRU, mean", ratio: 1.49 },
    Claim { place: "figure 2.6", what: "energy of Protect-0 beside LRU, mean", ratio: 0.808 },
    Claim { place: "figure 2.6", what: "energy of Protect-4 beside LRU, mean", ratio: 0.837 },
    Claim { place: "figure 2.6", what: "energy of Protect-1 in four partitions beside LRU, mean", ratio: 0.79 },
    Claim { place: "figure 2.9", what: "lifetime of the best beside LRU, eight threads, mean", ratio: 1.66 },
    Claim { place: "figure 2.10", what: "energy of the best beside LRU, eight threads, mean", ratio: 0.69 },
    Claim { place: "figure 2.11", what: "writebacks beside LRU, eight threads, mean", ratio: 0.6 },
    Claim { place: "figure 2.12", what: "misses beside LRU, eight threads, mean", ratio: 1.01 },
    Claim { place: "figure 2.1", what: "writebacks of a dirty line, more than half of the programs", ratio: 10.0 },
    Claim { place: "figure 2.5", what: "lifetime of the designs beside LRU, at the most of their means", ratio: 1.66 },
];
