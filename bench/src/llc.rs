//! The last-level cache before a memory that wears (nvm-storage-hierarchy.txt, chapter 2, figures 2.1 and 2.5 to 2.14):
//! real programs, recorded as they run, under every policy at once.
//!
//! The paper's programs are not free. Debian's programs of the same kinds replace them, on inputs that are made here and are
//! the same on every machine. A program that is not installed is left out, and the verdict says so.

use std::path::Path;

use ferrite_sim::cache::wear::{Levelling, WearModel};
use ferrite_sim::cache::{
    CacheEvent, CacheModel, CacheShape, PolicyDefaults, PolicyFigures, Study, StudyEnd, StudyProgress,
    StudyReport as Studied,
};
use ferrite_sim::record::{Program, ProgramOutput, Recording, RunningProgram};
use ferrite_sim::trace::FirstLevel;

use crate::report::{BOUND, BenchReport, ReportRow, claim};
use crate::scratch::Scratch;
use crate::session::{BenchSession, Experiment};
use crate::verdict::{TableEntry, figure, figures, line, ratios, values};
use crate::{Error, Result};

mod control;
mod inputs;
mod means;
mod programs;
mod speed;
mod traced;

use control::QuarteredCaches;
use programs::ProgramEntry;
use speed::KeptEvents;

/// Ways of the last level.
const WAYS: u32 = 16;

/// The program in place of hmmer in figure 2.14, because Debian's hmmer writes hardly anything back.
const DIVIDED: &str = "awk";
/// The program in place of soplex in figure 2.13.
const SORTED: &str = "bzip2";

/// The program whose accesses are also read from a file.
const TRACED: &str = "gzip";

/// The first level of each core.
const FIRST: FirstLevel =
    FirstLevel { shape: CacheShape { bytes: 64 << 10, ways: 2, line_bytes: 64 }, cores: 1, instructions: false };

/// Sizes of the last level, in MiB.
const SIZES: [u64; 4] = [1, 2, 4, 8];

/// A figure of the paper: the number with one thread, the number with eight, and the name.
struct PaperFigure {
    places: [&'static str; 2],
    what: &'static str,
    of: FigureOf,
}

const FIGURES: [PaperFigure; 4] = [
    PaperFigure { places: ["2.5", "2.9"], what: "lifetime", of: |one| one.lifetime_gain },
    PaperFigure { places: ["2.6", "2.10"], what: "energy", of: |one| one.energy_nj },
    PaperFigure { places: ["2.7", "2.11"], what: "writebacks", of: |one| one.writebacks as f64 },
    PaperFigure { places: ["2.8", "2.12"], what: "misses", of: |one| one.misses() as f64 },
];

type FigureOf = fn(&PolicyFigures) -> f64;

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let options = session.options;
    let scratch = Scratch::new(&options.place)?;
    let inputs = inputs::make(&scratch, options.length)?;
    let (ready, missing) = programs::ready(options);
    session.notes.extend(missing);
    let mut studied = Vec::new();
    for entry in ready {
        session.announce(entry.name)?;
        let (all, control) = study(session, entry, &inputs)?;
        let report = &all[own_size(entry)];
        add_rows(&mut session.report, entry, report);
        for (size, report) in SIZES.into_iter().zip(&all) {
            let shown = FIGURES.iter().filter(|figure| figure.what != "energy");
            let cases = shown.map(|figure| (format!("{size} MiB"), figure));
            session.report.rows.extend(figure_rows(entry.name, report, cases));
        }
        if entry.name == TRACED {
            traced::measure(session, entry, &inputs, &scratch.path("trace"))?;
        }
        control.into_iter().for_each(|control| control.add_rows(&mut session.report.rows, report));
        session.step(entry.name, 1000)?;
        studied.push((entry, all));
    }
    add_means(&mut session.report.rows, &studied);
    session.findings.extend(speed_text(&session.report));
    Ok(())
}

/// Adds the means of the paper's figures, of the groups of programs, and of all programs at each size.
fn add_means(rows: &mut Vec<ReportRow>, studied: &AllStudied<'_>) {
    for is_threaded in [false, true] {
        let reports = at_own_size(studied, |entry| entry.is_threaded == is_threaded);
        for PaperFigure { places, what, of } in &FIGURES {
            rows.extend(means::of_figure(places[usize::from(is_threaded)], what, *of, &reports));
        }
    }
    for (group, is_held_out) in means::GROUPS {
        rows.extend(means::of_group(group, &at_own_size(studied, |entry| entry.is_held_out == is_held_out)));
    }
    for (at, size) in SIZES.into_iter().enumerate() {
        let reports: Vec<&Studied> = studied.iter().map(|(_, all)| &all[at]).collect();
        rows.extend(means::of_group(&format!("{size} MiB"), &reports));
    }
}

/// How fast the slowest policy is simulated, and LRU: the mean over programs, and the slowest program.
fn speed_text(report: &BenchReport) -> Option<String> {
    let of = |policy: &str| {
        let rows = report.rows.iter().filter(|row| row.subject == policy && row.case.starts_with(speed::CASE));
        let rates: Vec<f64> = rows.map(|row| row.value).collect();
        let mean = rates.len() as f64 / rates.iter().map(|rate| 1.0 / rate).sum::<f64>();
        let least = rates.iter().copied().reduce(f64::min)?;
        Some(format!("{mean:.0} of {policy}'s (at the least {least:.0})"))
    };
    Some(format!("million events simulated a second on one core: {}, {}", of("worth")?, of("lru")?))
}

/// The report of each program at each size.
type AllStudied<'a> = [(&'a ProgramEntry, Vec<Studied>)];

/// The reports of the programs of a kind, each at its own size.
fn at_own_size<'a>(studied: &'a AllStudied<'_>, is_of_kind: impl Fn(&ProgramEntry) -> bool) -> Vec<&'a Studied> {
    let of_kind = studied.iter().filter(|(entry, _)| is_of_kind(entry));
    of_kind.map(|(entry, all)| &all[own_size(entry)]).collect()
}

/// The place in [`SIZES`] of the size that the paper has for a program.
fn own_size(entry: &ProgramEntry) -> usize {
    let own = if entry.is_threaded { 8 } else { 2 };
    SIZES.iter().position(|size| *size == own).unwrap_or(0)
}

/// Records a program and simulates it under every policy, at every size.
fn study(
    session: &mut BenchSession<'_>,
    entry: &ProgramEntry,
    inputs: &Path,
) -> Result<(Vec<Studied>, Option<QuarteredCaches>)> {
    let own = own_size(entry);
    let llc = model(SIZES[own]).llc;
    let mut control = (entry.name == DIVIDED).then(|| QuarteredCaches::new(llc)).transpose()?;
    let mut kept = KeptEvents::of(entry.name, llc)?;
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
        session.announce(&format!("{}, {} M accesses", entry.name, seen.accesses / 1_000_000)).is_ok()
    };
    let end = study.consume(Box::new(recording), on_events, &mut watch)?;
    finish(entry, &running, end)?;
    kept.measure(session)?;
    studies.insert(own, study);
    Ok((studies.into_iter().map(|study| study.finish(entry.name)).collect(), control))
}

/// Starts a program that is recorded, behind a first level.
fn start(entry: &ProgramEntry, inputs: &Path, first: FirstLevel) -> Result<Recording> {
    let folder = Some(inputs.to_owned());
    Ok(Program { words: entry.words(inputs), folder, output: ProgramOutput::Discarded }.start(first)?)
}

/// Ensures that a program ended with its usual status.
fn finish(entry: &ProgramEntry, running: &RunningProgram, end: StudyEnd) -> Result<()> {
    let status = running.finish(end);
    if end == StudyEnd::Stopped {
        return Err(Error::Interrupted);
    }
    if status.is_none_or(|status| status.code() != Some(entry.status)) {
        let what = format!("it ended with {} under qemu-user", status.map_or("nothing".into(), |one| one.to_string()));
        return Err(Error::server(entry.name, what));
    }
    Ok(())
}

/// The model with a last level of so many MiB.
fn model(size: u64) -> CacheModel {
    CacheModel {
        llc: CacheShape { bytes: size << 20, ways: WAYS, line_bytes: 64 },
        choices: PolicyDefaults::of(WAYS).usual(),
        fetch_on_write_miss: false,
        wear: WearModel { levelling: Levelling::RandomizedStartGap, ..WearModel::default() },
        threads: std::thread::available_parallelism().map_or(1, Into::into),
    }
}

fn add_rows(report: &mut BenchReport, entry: &ProgramEntry, studied: &Studied) {
    let rewrites = studied.policies[0].rewrites();
    let case = format!("2.1 {}: writebacks of a dirty line", entry.name);
    report.rows.push(beside_lru(&case, "lru", rewrites, rewrites));
    let place = usize::from(entry.is_threaded);
    let cases = FIGURES.iter().map(|figure| (figure.places[place].to_owned(), figure));
    report.rows.extend(figure_rows(entry.name, studied, cases));
    if entry.name == SORTED {
        distribution(report, studied);
    }
}

/// The rows of a program: one for each figure and policy, and the bound of writebacks. Figures come with the beginning of
/// their cases.
fn figure_rows<'a>(
    program: &str,
    studied: &Studied,
    figures: impl Iterator<Item = (String, &'a PaperFigure)>,
) -> Vec<ReportRow> {
    let (lru, mut rows) = (&studied.policies[0], Vec::new());
    for (place, figure) in figures {
        let (of, case) = (figure.of, format!("{place} {}, {program}", figure.what));
        rows.extend(studied.policies.iter().map(|one| beside_lru(&case, &one.policy, of(one), of(lru))));
        if figure.what == "writebacks" {
            rows.push(beside_lru(&case, BOUND, studied.bound.writebacks as f64, of(lru)));
        }
    }
    rows
}

/// Figure 2.13: the lines sorted by how often they were written.
fn distribution(report: &mut BenchReport, studied: &Studied) {
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
            report.rows.push(beside_lru(&case, &one.policy, at(&sorted(one), share), at(&lru, share)));
        }
    }
}

/// The row of a value beside LRU's value.
fn beside_lru(case: &str, subject: &str, value: f64, lru: f64) -> ReportRow {
    ReportRow::once(case.into(), subject, value, "lru", if lru == 0.0 { 1.0 } else { value / lru })
}

/// Our own policy beside the paper's, over a group of programs.
const JUDGED: &[TableEntry] = &[
    figure("lifetime", "worth").case(means::LIFETIME),
    figure("of protect-0", "protect-0").case(means::LIFETIME),
    figure("of partitioned-4x4", "partitioned-4x4").case(means::LIFETIME),
    figure("misses", "worth").case(means::MISSES),
    figure("of protect-0", "protect-0").case(means::MISSES),
    figure("of partitioned-4x4", "partitioned-4x4").case(means::MISSES),
    figure("misses at most", "worth").case(means::MOST),
    figure("of the gap closed", "worth").case(means::GAP),
];

/// Our own policy at one size of the cache.
const AT_SIZE: &[TableEntry] = &[
    figure("lifetime", "worth").case(means::LIFETIME),
    figure("the least lifetime", "worth").case(means::LEAST),
    figure("misses at most", "worth").case(means::MOST),
];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "llc",
    about: "policies of the last-level cache before a memory that wears, on real programs (chapter 2, figures 2.1 to 2.14)",
    expected_ms: [25_000, 8000, 8000],
    run,
    verdict: &[
        line("lifetime beside LRU, mean", "2.5 lifetime, mean of ratios"),
        figure("protect-0", "protect-0"),
        figure("protect-4", "protect-4"),
        figure("partitioned-4x4", "partitioned-4x4").paper("1.49"),
        line("energy beside LRU, mean", "2.6 energy, mean of ratios"),
        figure("protect-0", "protect-0").paper("0.81"),
        figure("protect-4", "protect-4").paper("0.84"),
        figure("partitioned-4x4", "partitioned-4x4").paper("0.79"),
        line("writebacks beside LRU, mean", "2.7 writebacks, mean of ratios"),
        figure("protect-0", "protect-0"),
        figure("protect-4", "protect-4"),
        figure("partitioned-4x4", "partitioned-4x4"),
        line("misses beside LRU, mean", "2.8 misses, mean of ratios"),
        figure("protect-0", "protect-0"),
        figure("protect-4", "protect-4"),
        figure("partitioned-4x4", "partitioned-4x4"),
        line("worth, programs that it was designed on", "designed on: "),
        figures(JUDGED),
        line("worth, programs held out", "held out: "),
        figures(JUDGED),
        line("worth at 1 MiB", "1 MiB: "),
        figures(AT_SIZE),
        line("worth at 2 MiB", "2 MiB: "),
        figures(AT_SIZE),
        line("worth at 4 MiB", "4 MiB: "),
        figures(AT_SIZE),
        line("worth at 8 MiB", "8 MiB: "),
        figures(AT_SIZE),
        line("million accesses a second", traced::ALL_CASES),
        figure("live", traced::LIVE).value(""),
        figure("from a file", traced::FILE).value(""),
    ],
    paper: &[
        claim("figure 2.5", 1.49, "lifetime of Protect-1 in four partitions beside LRU, mean"),
        claim("figure 2.6", 0.808, "energy of Protect-0 beside LRU, mean"),
        claim("figure 2.6", 0.837, "energy of Protect-4 beside LRU, mean"),
        claim("figure 2.6", 0.79, "energy of Protect-1 in four partitions beside LRU, mean"),
        claim("figure 2.9", 1.66, "lifetime of the best beside LRU, eight threads, mean"),
        claim("figure 2.10", 0.69, "energy of the best beside LRU, eight threads, mean"),
        claim("figure 2.11", 0.6, "writebacks beside LRU, eight threads, mean"),
        claim("figure 2.12", 1.01, "misses beside LRU, eight threads, mean"),
        claim("figure 2.1", 10.0, "writebacks of a dirty line, more than half of the programs"),
        claim("figure 2.5", 1.66, "lifetime of the designs beside LRU, at the most of their means"),
    ],
    charts: &[
        ratios("lifetime beside LRU (figure 2.5)", "2.5 *"),
        ratios("lifetime beside LRU (figure 2.9)", "2.9 *"),
        ratios("energy beside LRU (figure 2.6)", "2.6 *"),
        ratios("energy beside LRU (figure 2.10)", "2.10 *"),
        ratios("writebacks beside LRU (figure 2.7)", "2.7 *"),
        ratios("writebacks beside LRU (figure 2.11)", "2.11 *"),
        ratios("misses beside LRU (figure 2.8)", "2.8 *"),
        ratios("misses beside LRU (figure 2.12)", "2.12 *"),
        ratios("lifetime, geometric mean, by size of the cache", "* MiB: lifetime, geometric mean"),
        ratios("lifetime, the least, by size of the cache", "* MiB: lifetime, the least"),
        ratios("misses, the most, by size of the cache", "* MiB: misses, the most"),
        values("writebacks of a dirty line (figure 2.1)", "2.1 *"),
        values("writes of the lines, sorted (figure 2.13)", "2.13 *"),
        values("accesses of each part, of an even share (figure 2.14)", "2.14 accesses*"),
        values("writebacks an access, of each part (figure 2.14)", "2.14 writebacks*"),
    ],
};

#[cfg(test)]
mod tests;
