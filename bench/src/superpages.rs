//! Superpages beside normal pages (nvm-storage-hierarchy.txt, figures 5.3 to 5.10): a large file as IOzone works on it,
//! small and large files as postmark does, by throughput and by the TLB misses that the processor counts.
//!
//! A file system on "normal pages" is ours on memory that is mapped in pages of 4 KiB, with no file moved to superpages;
//! one on "superpages" has its large files in them, mapped as such. Between the two stands one whose files keep their
//! pages of 4 KiB while the mapping is in pages of 2 MiB: what of the gain is the mapping's alone.

use ferrite_fs::{Ino, SUPER_THRESHOLD_BYTES};

use crate::entrant::Entrant;
use crate::options::{Length, OnProgress, Options};
use crate::records::{Job, Mixture, Order, Told, Transactions, Verb};
use crate::report::{Claim, Measure, Report, rows};
use crate::rounds::{self, Series, Subject as Turn};
use crate::session::{Session, Subject};
use crate::{Result, tlb};

mod field;
mod verdict;

use field::Field;

/// How much is measured.
struct Plan {
    file_bytes: u64,
    window_bytes: u64,
    records: &'static [u64],
    limit_ms: u64,
    rounds: usize,
    mixture: Mixture,
}

impl Plan {
    fn of(length: Length) -> Self {
        let mixture = Mixture { small: 2000, large: 16, large_bytes: 16 << 20 };
        let full = Self {
            file_bytes: 1 << 30,
            window_bytes: 16 << 20,
            records: &[4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20],
            limit_ms: 10,
            rounds: 31,
            mixture,
        };
        match length {
            Length::Full => full,
            Length::Quick => {
                Self { file_bytes: 512 << 20, records: &[4 << 10, 128 << 10, 2 << 20], limit_ms: 4, rounds: 15, ..full }
            }
            Length::Smoke => Self {
                file_bytes: 16 << 20,
                window_bytes: 1 << 20,
                records: &[4 << 10, 2 << 20],
                limit_ms: 1,
                rounds: 1,
                mixture: Mixture { small: 20, large: 1, large_bytes: 10 << 20 },
            },
        }
    }

    fn total_ms(&self) -> u64 {
        let cases = 2 * (VERBS.len() * self.records.len() + MIXTURES.len()) as u64;
        cases * (self.rounds as u64 + 1) * field::NAMES.len() as u64 * self.limit_ms
    }
}

/// What is done with the large file.
const VERBS: [(&str, Verb); 4] = [
    ("sequential write", Verb::Rewrite),
    ("random write", Verb::RandomWrite),
    ("sequential read", Verb::Read),
    ("random read", Verb::RandomRead),
];
/// Mixtures, and how many of a hundred transactions read.
const MIXTURES: [(&str, u64); 2] =
    [("small and large files, mostly written", 10), ("small and large files, mostly read", 90)];
/// What a case of TLB misses is called behind its name.
const MISSES: &str = ", TLB misses";
/// The space that a large file takes.
pub(crate) const SPACE: &str = "space of a large file";

/// Something that is measured twice: by its rate and by its TLB misses.
struct Case {
    name: String,
    unit: &'static str,
    figures: [&'static str; 2],
    order: Box<dyn Fn(u64, Told) -> Order>,
}

/// Runs it.
pub fn run(options: &Options, on_progress: OnProgress<'_>) -> Result<Report> {
    let plan = Plan::of(options.length);
    let subject = Subject { experiment: "superpages", paper: &PAPER, total_ms: plan.total_ms() };
    let mut session = Session::new(&subject, options, on_progress);
    let cases: Vec<Case> = plan.large().chain(plan.mixed()).filter(|case| options.wants(&case.name)).collect();
    if cases.is_empty() {
        return Ok(session.end(String::new()));
    }
    session.tell("mounting")?;
    let mut field = Field::new(options, plan.file_bytes + plan.mixture.large * plan.mixture.large_bytes + (96 << 20))?;
    let mut notes = std::mem::take(&mut field.notes);
    let uncounted = tlb::missing();
    for entrant in &mut field.entrants {
        session.tell(&format!("preparing files on {}", entrant.name))?;
        entrant.order(&Order::Prepare { files: 1, file_bytes: plan.file_bytes })?;
        entrant.order(&Order::Mix(plan.mixture))?;
        entrant.settle()?;
    }
    space(&mut session, &field)?;
    for told in [Told::Rate, Told::Misses].into_iter().take(if uncounted.is_some() { 1 } else { 2 }) {
        cases.iter().try_for_each(|case| measure(&mut session, &plan, &mut field.entrants, (case, told)))?;
    }
    notes.extend(uncounted.map(|why| format!("this machine tells no TLB misses ({why})")));
    charts(&mut session, &cases);
    let verdict = verdict::of(&session.report, &field.pages, notes);
    Ok(session.end(verdict))
}

impl Plan {
    fn large(&self) -> impl Iterator<Item = Case> + '_ {
        let of = move |bytes: u64| VERBS.into_iter().map(move |verb| (bytes, verb));
        self.records.iter().copied().flat_map(of).map(|(record_bytes, (name, verb))| {
            let window_bytes = self.window_bytes.max(record_bytes);
            let (file_bytes, limit_us) = (self.file_bytes, self.limit_ms * 1000);
            let figures = if matches!(verb, Verb::Rewrite | Verb::Read) { ["5.5", "5.3"] } else { ["5.6", "5.4"] };
            let order = move |seed, told| {
                Order::Work(Job { verb, record_bytes, threads: 1, file_bytes, window_bytes, limit_us, seed, told })
            };
            Case { name: format!("{name} {}K", record_bytes >> 10), unit: "MB/s", figures, order: Box::new(order) }
        })
    }

    fn mixed(&self) -> impl Iterator<Item = Case> + '_ {
        MIXTURES.into_iter().map(|(name, reads)| {
            let (mixture, limit_us) = (self.mixture, self.limit_ms * 1000);
            let figures = if reads < 50 { ["5.9", "5.7"] } else { ["5.10", "5.8"] };
            let order = move |seed, told| Order::Transact(Transactions { mixture, reads, limit_us, seed, told });
            Case { name: name.into(), unit: "k/s", figures, order: Box::new(order) }
        })
    }
}

impl Case {
    fn name_of(&self, told: Told) -> String {
        if told == Told::Rate { self.name.clone() } else { format!("{}{MISSES}", self.name) }
    }
}

fn measure(
    session: &mut Session<'_>,
    plan: &Plan,
    entrants: &mut [Entrant],
    (case, told): (&Case, Told),
) -> Result<()> {
    let (count, name) = (entrants.len() as u64, case.name_of(told));
    let turn = |entrant| {
        let entrant: &mut Entrant = entrant;
        Turn::new(entrant.name, move |slice| {
            let value = entrant.order(&(case.order)(slice / count, told))?;
            entrant.settle()?;
            Ok(value)
        })
    };
    let mut turns: Vec<Turn<'_>> = entrants.iter_mut().map(turn).collect();
    let steps = &mut session.steps;
    let series = rounds::run(&mut turns, plan.rounds, &mut || steps.step(&name, plan.limit_ms))?;
    let (unit, scale) = match (told, case.unit) {
        (Told::Misses, _) => ("each", 1.0),
        (_, "MB/s") => ("MB/s", 1e-6),
        (_, unit) => (unit, 1e-3),
    };
    // None at all is told as a millionth: ratios to nothing say nothing.
    let series: Vec<Series> = series.into_iter().map(|one| one.map(|value| (value * scale).max(1e-6))).collect();
    let base = series.iter().find(|one| one.name == field::NORMAL).unwrap_or(&series[0]);
    session.report.rows.extend(rows(&name, unit, &series, base));
    Ok(())
}

/// What superpages waste: the paper keeps it within 1 %.
fn space(session: &mut Session<'_>, field: &Field) -> Result<()> {
    let mut series = Vec::new();
    for (name, fs) in &field.trees {
        let attr = fs.lookup(Ino::ROOT, b"data-0")?;
        if series.is_empty() {
            series.push(Series { name: field::DATA.into(), values: vec![attr.size as f64 / f64::from(1 << 20)] });
        }
        let bytes = attr.allocated_bytes as f64 / f64::from(1 << 20);
        series.push(Series { name: (*name).into(), values: vec![bytes] });
    }
    session.report.rows.extend(rows(SPACE, "MiB", &series, &series[0]));
    Ok(())
}

fn charts(session: &mut Session<'_>, cases: &[Case]) {
    for (told, what) in [(Told::Rate, "Throughput"), (Told::Misses, "TLB misses")] {
        for unit in ["MB/s", "k/s"] {
            let of_unit: Vec<&Case> = cases.iter().filter(|case| case.unit == unit).collect();
            for same in of_unit.chunks(VERBS.len()) {
                let names: Vec<String> = same.iter().map(|case| case.name_of(told)).collect();
                if session.report.rows.iter().any(|row| names.contains(&row.case)) {
                    let mut figures: Vec<&str> = same.iter().map(|case| case.figures[told as usize]).collect();
                    figures.sort_unstable();
                    figures.dedup();
                    session.chart(&format!("{what} (figures {})", figures.join(", ")), Measure::Ratio, names);
                }
            }
        }
    }
}

const PAPER: [Claim; 4] = [
    Claim { place: "figures 5.3 and 5.4", what: "TLB misses, SCMFS with superpages beside without: fewer", ratio: 1.0 },
    Claim { place: "figures 5.5 and 5.6", what: "throughput of IOzone, the same two: significantly more", ratio: 1.0 },
    Claim { place: "figures 5.9 and 5.10", what: "throughput of postmark, the same two: more", ratio: 1.0 },
    Claim { place: "5.3.1", what: "space lost within superpages: 1 % on average", ratio: 1.01 },
];

const _: () = assert!(SUPER_THRESHOLD_BYTES <= 10 << 20);
