//! Files by records (zonfs.txt, figures 5 and 6): written and read as IOzone does, by every way into our file system,
//! beside the kernel's file systems in memory, and a bare copy with its fence, which is what the machine allows; then
//! files by name, and how soon a full pool is there.
//!
//! The paper's file is 10 GB and read as a whole; here each slice works on a window of a smaller file, and windows take
//! turns, so that what is read has left the processor's caches since it was written.

use crate::Result;
use crate::entrant::Entrant;
use crate::options::{Length, OnProgress, Options};
use crate::records::{Job, Naming, Order, Told, Verb};
use crate::report::{Claim, Measure, Report, rows};
use crate::rounds::{self, Series, Subject as Turn};
use crate::session::{Session, Subject};

mod crowd;
mod field;
mod verdict;

use field::Field;

/// Records of the cases that differ in threads.
const THREADED_BYTES: u64 = 4 << 10;
/// Records of the case that appends to a page many times.
const APPENDED_BYTES: u64 = 64;

/// How much is measured.
pub(crate) struct Plan {
    /// Bytes of the file, or of all threads' files together.
    file_bytes: u64,
    /// Bytes that a slice works on.
    window_bytes: u64,
    /// Milliseconds that a slice takes at most.
    limit_ms: u64,
    rounds: usize,
    /// Bytes of records, of one thread.
    records: &'static [u64],
    /// Threads beside one.
    threads: &'static [u64],
    /// Files that a slice makes and removes.
    names: u64,
    /// Files of the pool that is opened.
    crowd: u64,
}

impl Plan {
    fn of(length: Length) -> Self {
        match length {
            Length::Full => Self {
                file_bytes: 512 << 20,
                window_bytes: 16 << 20,
                limit_ms: 10,
                rounds: 31,
                records: &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
                threads: &[2, 4, 10, 20, 40],
                names: 1000,
                crowd: 1_000_000,
            },
            Length::Quick => Self {
                file_bytes: 192 << 20,
                window_bytes: 8 << 20,
                limit_ms: 4,
                rounds: 21,
                records: &[4 << 10, 64 << 10, 1 << 20],
                threads: &[2],
                names: 300,
                crowd: 1_000_000,
            },
            Length::Smoke => Self {
                file_bytes: 4 << 20,
                window_bytes: 1 << 20,
                limit_ms: 1,
                rounds: 1,
                records: &[4 << 10, 1 << 20],
                threads: &[3],
                names: 10,
                crowd: 1000,
            },
        }
    }

    fn total_ms(&self) -> u64 {
        let cases = 6 * (self.records.len() + self.threads.len()) + 1 + Naming::ALL.len();
        let slices = cases as u64 * (self.rounds as u64 + 1) * field::NAMES.len() as u64;
        slices * self.limit_ms + crowd::TOTAL_MS
    }
}

/// One case: a verb, by records of so many bytes and so many threads.
#[derive(Clone, Copy)]
struct Case {
    verb: (&'static str, Verb),
    record_bytes: u64,
    threads: u64,
}

impl Case {
    fn name(&self) -> String {
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        format!("{} {}{threads}", self.verb.0, length(self.record_bytes))
    }
}

/// Bytes of a record, as names of cases have them.
fn length(bytes: u64) -> String {
    if bytes < 1 << 10 { format!("{bytes} B") } else { format!("{}K", bytes >> 10) }
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plan = Plan::of(options.length);
    let subject = Subject { experiment: "zones", paper: &PAPER, total_ms: plan.total_ms() };
    let mut session = Session::new(&subject, options, on_progress);
    let mut notes = Vec::new();
    by_records(&mut session, &plan, &mut notes)?;
    crowd::measure(&mut session, &plan)?;
    let verdict = verdict::of(&session.report, notes);
    Ok(session.end(verdict))
}

fn by_records(session: &mut Session<'_>, plan: &Plan, notes: &mut Vec<String>) -> Result<()> {
    let of = |threads, record_bytes| Verb::ALL.map(|verb| Case { verb, record_bytes, threads });
    let wanted = |cases: Vec<Case>| -> Vec<Case> {
        cases.into_iter().filter(|case| session.options.wants(&case.name())).collect()
    };
    let alone = plan.records.iter().map(|bytes| wanted(of(1, *bytes).into()));
    let together = plan.threads.iter().map(|threads| wanted(of(*threads, THREADED_BYTES).into()));
    let (verb, record_bytes) = (Verb::ALL[0], APPENDED_BYTES);
    let appended = wanted(vec![Case { verb, record_bytes, threads: 1 }]);
    let groups: Vec<Vec<Case>> = std::iter::once(appended).chain(alone).chain(together).collect();
    let names = Naming::ALL;
    let names: Vec<_> = names.into_iter().filter(|(name, _)| session.options.wants(name)).collect();
    if groups.iter().all(Vec::is_empty) && names.is_empty() {
        return Ok(());
    }
    session.tell("mounting")?;
    let mut field = Field::new(session.options, plan.file_bytes, plan.window_bytes)?;
    notes.append(&mut field.notes);
    // Cases of as many threads share their files.
    for same in groups.chunk_by(|one, next| threads_of(one) == threads_of(next)) {
        let cases: Vec<Case> = same.concat();
        if !cases.is_empty() {
            work(session, plan, &mut field, &cases)?;
        }
    }
    for (name, what) in &names {
        let order = Order::Name(*what, plan.names);
        let series = race(session, plan, &mut field, name, &mut |_| order)?;
        let series: Vec<Series> = series.into_iter().map(|one| one.map(|seconds| seconds * 1e6)).collect();
        enter(session, name, "us", &series);
    }
    charts(session, plan, &groups, &names);
    Ok(())
}

fn threads_of(cases: &[Case]) -> Option<u64> {
    cases.first().map(|case| case.threads)
}

/// Measures `cases`, all of as many threads, on files of their own.
fn work(session: &mut Session<'_>, plan: &Plan, field: &mut Field, cases: &[Case]) -> Result<()> {
    let threads = cases[0].threads;
    let file_bytes = plan.file_bytes / threads / (1 << 20) * (1 << 20);
    let window_bytes = (plan.window_bytes / threads).max(THREADED_BYTES);
    field.each(|entry| {
        session.tell(&format!("preparing files on {}", entry.name))?;
        entry.order(&Order::Prepare { files: threads, file_bytes: file_bytes.max(1 << 20) })?;
        entry.settle()
    })?;
    for case in cases {
        let job = |seed| {
            let (verb, record_bytes, limit_us) = (case.verb.1, case.record_bytes, plan.limit_ms * 1000);
            let file_bytes = file_bytes.max(1 << 20);
            Order::Work(Job { verb, record_bytes, threads, file_bytes, window_bytes, limit_us, seed, told: Told::Rate })
        };
        let series = race(session, plan, field, &case.name(), &mut |seed| job(seed))?;
        let series: Vec<Series> = series.into_iter().map(|one| one.map(|rate| rate / 1e6)).collect();
        enter(session, &case.name(), "MB/s", &series);
    }
    field.each(|entry| entry.order(&Order::Clear { files: threads }).map(drop))
}

/// All who are in `field` and can do what is ordered, in turn, by the order that each round's number gives.
fn race(
    session: &mut Session<'_>,
    plan: &Plan,
    field: &mut Field,
    case: &str,
    order: &mut dyn FnMut(u64) -> Order,
) -> Result<Vec<Series>> {
    let first = order(0);
    let entries: Vec<&mut Entrant> = field.entries.iter_mut().filter(|entry| entry.takes(&first)).collect();
    let (count, order) = (entries.len() as u64, std::cell::RefCell::new(order));
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for entry in entries {
        let order = &order;
        turns.push(Turn::new(entry.name, move |slice| {
            let order = (order.borrow_mut())(slice / count);
            let value = entry.order(&order)?;
            entry.settle()?;
            Ok(value)
        }));
    }
    let steps = &mut session.steps;
    rounds::run(&mut turns, plan.rounds, &mut || steps.step(case, plan.limit_ms))
}

fn enter(session: &mut Session<'_>, case: &str, unit: &'static str, series: &[Series]) {
    let base = series.iter().find(|one| one.name == field::TMPFS).unwrap_or(&series[0]);
    session.report.rows.extend(rows(case, unit, series, base));
}

fn charts(session: &mut Session<'_>, plan: &Plan, groups: &[Vec<Case>], names: &[(&str, Naming)]) {
    let bytes = plan.file_bytes >> 20;
    for cases in groups.iter().filter(|cases| !cases.is_empty()) {
        let Case { record_bytes, threads, .. } = cases[0];
        let (records, figure) = (length(record_bytes), if threads == 1 { 5 } else { 6 });
        let title = format!("Records of {records}, threads: {threads}, files of {bytes} MiB (figure {figure})");
        session.chart(&title, Measure::Ratio, cases.iter().map(Case::name).collect());
    }
    if !names.is_empty() {
        let names = names.iter().map(|(name, _)| (*name).to_owned()).collect();
        session.chart("Files by name: time", Measure::Ratio, names);
    }
}

const PAPER: [Claim; 6] = [
    Claim { place: "figure 5(a)", what: "write 4K, ZonFS beside tmpfs", ratio: 1.114 },
    Claim { place: "figure 5(a)", what: "write 4K, ZonFS beside ramfs", ratio: 1.075 },
    Claim { place: "figure 5(f)", what: "re-read, ZonFS beside tmpfs, at best", ratio: 1.058 },
    Claim { place: "section V", what: "write, ZonFS beside tmpfs, at best", ratio: 1.138 },
    Claim { place: "section V", what: "write, ZonFS beside ramfs, at best", ratio: 1.091 },
    Claim {
        place: "figure 6",
        what: "any number of threads, ZonFS beside tmpfs: no significant difference",
        ratio: 1.0,
    },
];
