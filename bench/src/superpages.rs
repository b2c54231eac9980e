//! Superpages beside normal pages (nvm-storage-hierarchy.txt, figures 5.3 to 5.10): a large file as IOzone works on it,
//! small and large files as postmark does, by throughput and by the TLB misses that the processor counts.
//!
//! A file system on "normal pages" is ours on memory that is mapped in pages of 4 KiB, with no file moved to superpages;
//! one on "superpages" has its large files in them, mapped as such. Between the two stands one whose files keep their
//! pages of 4 KiB while the mapping is in pages of 2 MiB: what of the gain is the mapping's alone.

use ferrite_fs::{Ino, SUPER_THRESHOLD_BYTES};

use crate::field::Field;
use crate::file_subject::FileSubject;
use crate::options::{BenchOptions, Length, ProgressWatch};
use crate::records::{FileOrder, JobMeasure, Mixture, RecordJob, RecordVerb, Transactions};
use crate::report::{BenchReport, ChartMeasure, PaperClaim, claim, rows};
use crate::rounds::Series;
use crate::session::{BenchSession, Race};
use crate::verdict::{VerdictEntry, figure, line, remark};
use crate::{Result, tlb};

mod subjects;

use subjects::{BETWEEN, DATA, NAMES, NORMAL, SUPER};

/// The sizes and durations of the experiment.
struct PagePlan {
    file_bytes: u64,
    window_bytes: u64,
    records: &'static [u64],
    limit_ms: u64,
    rounds: usize,
    mixture: Mixture,
}

impl PagePlan {
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
        cases * (self.rounds as u64 + 1) * NAMES.len() as u64 * self.limit_ms
    }
}

/// The work on the large file.
const VERBS: [(&str, RecordVerb); 4] = [
    ("sequential write", RecordVerb::Rewrite),
    ("random write", RecordVerb::RandomWrite),
    ("sequential read", RecordVerb::Read),
    ("random read", RecordVerb::RandomRead),
];
/// The mixtures, and the number of transactions in a hundred that read.
const MIXTURES: [(&str, u64); 2] =
    [("small and large files, mostly written", 10), ("small and large files, mostly read", 90)];
/// The end of the name of a case of TLB misses.
const MISSES: &str = ", TLB misses";
/// The case of the space of a large file.
pub(crate) const SPACE: &str = "space of a large file";

/// A case that is measured twice: by its rate and by its TLB misses.
struct PageCase {
    name: String,
    unit: &'static str,
    figures: [&'static str; 2],
    order: Box<dyn Fn(u64, JobMeasure) -> FileOrder>,
}

/// Runs the experiment.
pub fn run(options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
    let plan = PagePlan::of(options.length);
    let mut session = BenchSession::new("superpages", &PAPER, plan.total_ms(), options, on_progress);
    let cases: Vec<PageCase> = plan.large().chain(plan.mixed()).filter(|case| options.wants(&case.name)).collect();
    if cases.is_empty() {
        return Ok(session.end(&[], None));
    }
    session.announce("mounting")?;
    let bytes = plan.file_bytes + plan.mixture.large * plan.mixture.large_bytes + (96 << 20);
    let mut field = Field::default();
    let pages = subjects::enter_ours(&mut field, &session, bytes + bytes / 8)?;
    subjects::enter_kernels(&mut field, &mut session, bytes + bytes / 8)?;
    field.prepare(&mut session, &FileOrder::Prepare { files: 1, file_bytes: plan.file_bytes })?;
    field.prepare(&mut session, &FileOrder::Mix(plan.mixture))?;
    add_space(&mut session, &field)?;
    let uncounted = tlb::missing();
    for answer in [JobMeasure::Rate, JobMeasure::Misses].into_iter().take(if uncounted.is_some() { 1 } else { 2 }) {
        cases.iter().try_for_each(|case| measure(&mut session, &plan, &mut field, case, answer))?;
    }
    session.notes.extend(uncounted.map(|why| format!("this machine counts no TLB misses ({why})")));
    charts(&mut session, &cases);
    Ok(session.end(VERDICT, Some(pages)))
}

impl PagePlan {
    fn large(&self) -> impl Iterator<Item = PageCase> + '_ {
        let of = move |bytes: u64| VERBS.into_iter().map(move |verb| (bytes, verb));
        self.records.iter().copied().flat_map(of).map(|(record_bytes, (name, verb))| {
            let window_bytes = self.window_bytes.max(record_bytes);
            let (file_bytes, limit_us) = (self.file_bytes, self.limit_ms * 1000);
            let figures =
                if matches!(verb, RecordVerb::Rewrite | RecordVerb::Read) { ["5.5", "5.3"] } else { ["5.6", "5.4"] };
            let order = move |seed, answer| {
                FileOrder::Work(RecordJob {
                    verb,
                    record_bytes,
                    threads: 1,
                    file_bytes,
                    window_bytes,
                    limit_us,
                    seed,
                    answer,
                })
            };
            PageCase { name: format!("{name} {}K", record_bytes >> 10), unit: "MB/s", figures, order: Box::new(order) }
        })
    }

    fn mixed(&self) -> impl Iterator<Item = PageCase> + '_ {
        MIXTURES.into_iter().map(|(name, reads)| {
            let (mixture, limit_us) = (self.mixture, self.limit_ms * 1000);
            let figures = if reads < 50 { ["5.9", "5.7"] } else { ["5.10", "5.8"] };
            let order =
                move |seed, answer| FileOrder::Transact(Transactions { mixture, reads, limit_us, seed, answer });
            PageCase { name: name.into(), unit: "k/s", figures, order: Box::new(order) }
        })
    }
}

impl PageCase {
    fn name_of(&self, answer: JobMeasure) -> String {
        if answer == JobMeasure::Rate { self.name.clone() } else { format!("{}{MISSES}", self.name) }
    }
}

fn measure(
    session: &mut BenchSession<'_>,
    plan: &PagePlan,
    field: &mut Field<FileSubject>,
    case: &PageCase,
    answer: JobMeasure,
) -> Result<()> {
    let (unit, scale) = match (answer, case.unit) {
        (JobMeasure::Misses, _) => ("each", 1.0),
        (_, "MB/s") => ("MB/s", 1e-6),
        (_, unit) => (unit, 1e-3),
    };
    let (name, rounds, slice_ms) = (case.name_of(answer), plan.rounds, plan.limit_ms);
    let race = Race { case: &name, unit, rounds, slice_ms, beside: NORMAL };
    // No miss at all becomes a millionth, because a ratio to nothing has no meaning.
    field.race(session, &race, &|round| (case.order)(round, answer), &|value| (value * scale).max(1e-6))
}

/// The space that a large file takes beside its bytes: the paper loses at most 1 % of superpages.
fn add_space(session: &mut BenchSession<'_>, field: &Field<FileSubject>) -> Result<()> {
    let mut series = Vec::new();
    let mut add = |name: &str, bytes: u64| series.push(Series { name: name.into(), values: vec![mib(bytes)] });
    for (name, fs) in field.entries.iter().filter_map(|(name, entrant)| Some((name, entrant.library()?))) {
        let attr = fs.lookup(Ino::ROOT, b"data-0")?;
        if *name == SUPER {
            add(DATA, attr.size);
        }
        add(name, attr.allocated_bytes);
    }
    session.report.rows.extend(rows(SPACE, "MiB", &series, &series[0]));
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn charts(session: &mut BenchSession<'_>, cases: &[PageCase]) {
    for (answer, what) in [(JobMeasure::Rate, "Throughput"), (JobMeasure::Misses, "TLB misses")] {
        for unit in ["MB/s", "k/s"] {
            let of_unit: Vec<&PageCase> = cases.iter().filter(|case| case.unit == unit).collect();
            for same in of_unit.chunks(VERBS.len()) {
                let names: Vec<String> = same.iter().map(|case| case.name_of(answer)).collect();
                if session.report.rows.iter().any(|row| names.contains(&row.case)) {
                    let mut figures: Vec<&str> = same.iter().map(|case| case.figures[answer as usize]).collect();
                    figures.sort_unstable();
                    figures.dedup();
                    session.chart(&format!("{what} (figures {})", figures.join(", ")), ChartMeasure::Ratio, names);
                }
            }
        }
    }
}

const VERDICT: &[VerdictEntry] = &[
    line("random 4 KiB reads of a large file beside normal pages", "random read 4K"),
    figure("superpages", SUPER),
    figure("superpages of the mapping alone", BETWEEN),
    line("a large file, by records, beside normal pages (paper: more)", ""),
    figure("sequential write", SUPER).case("sequential write *").unit("MB/s"),
    figure("random write", SUPER).case("random write *").unit("MB/s"),
    figure("sequential read", SUPER).case("sequential read *").unit("MB/s"),
    figure("random read", SUPER).case("random read *").unit("MB/s"),
    line("small and large files beside normal pages", "small and large files*"),
    figure("", SUPER).unit("k/s").paper("more"),
    line("TLB misses beside normal pages", "*, TLB misses"),
    figure("", SUPER).paper("fewer"),
    line("TLB misses of a random 4 KiB read", "random read 4K, TLB misses"),
    figure("superpages", SUPER).value(""),
    figure("normal pages", NORMAL).value(""),
    remark("if superpages miss as often, a hypervisor maps them by 4 KiB, and only the walks are shorter"),
    line("space of a large file beside its bytes", SPACE),
    figure("", SUPER).fine().paper("1.01"),
];

const PAPER: [PaperClaim; 4] = [
    claim("figures 5.3 and 5.4", 1.0, "TLB misses, SCMFS with superpages beside without: fewer"),
    claim("figures 5.5 and 5.6", 1.0, "throughput of IOzone, the same two: significantly more"),
    claim("figures 5.9 and 5.10", 1.0, "throughput of postmark, the same two: more"),
    claim("5.3.1", 1.01, "space lost within superpages: 1 % on average"),
];

const _: () = assert!(SUPER_THRESHOLD_BYTES <= 10 << 20);

#[cfg(test)]
mod tests;
