//! Superpages beside normal pages (nvm-storage-hierarchy.txt, figures 5.3 to 5.10): a large file as IOzone works on it,
//! small and large files as postmark does, by throughput and by the TLB misses that the processor counts.
//!
//! A file system on "normal pages" is ours on memory that is mapped in pages of 4 KiB, with no file moved to superpages;
//! one on "superpages" has its large files in them, mapped as such. Between the two stands one whose files keep their
//! pages of 4 KiB while the mapping is in pages of 2 MiB: what of the gain is the mapping's alone.

use ferrite_fs::{Ino, SUPER_THRESHOLD_BYTES};

use crate::field::Field;
use crate::file_subject::FileSubject;
use crate::options::Length;
use crate::records::{FileOrder, JobMeasure, Mixture, RecordJob, RecordVerb, Transactions};
use crate::report::{claim, rows};
use crate::rounds::Series;
use crate::session::{BenchSession, Experiment, Race};
use crate::verdict::{figure, line, ratios, remark};
use crate::{Result, tlb};

mod subjects;

use subjects::{BETWEEN, DATA, NORMAL, SUPER};

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
        Self {
            file_bytes: length.pick([1 << 30, 512 << 20, 16 << 20]),
            window_bytes: length.pick([16 << 20, 16 << 20, 1 << 20]),
            records: length.pick([
                &[4 << 10, 32 << 10, 128 << 10, 512 << 10, 2 << 20, 8 << 20],
                &[4 << 10, 128 << 10, 2 << 20],
                &[4 << 10, 2 << 20],
            ]),
            limit_ms: length.pick([10, 4, 1]),
            rounds: length.pick([31, 15, 1]),
            mixture: length.pick([mixture, mixture, Mixture { small: 20, large: 1, large_bytes: 10 << 20 }]),
        }
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
    order: Box<dyn Fn(u64, JobMeasure) -> FileOrder>,
}

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = PagePlan::of(session.options.length);
    let cases = session.wanted(plan.large().chain(plan.mixed()), |case| case.name.clone());
    if cases.is_empty() {
        return Ok(());
    }
    session.announce("mounting")?;
    let bytes = plan.file_bytes + plan.mixture.large * plan.mixture.large_bytes + (96 << 20);
    let mut field = Field::default();
    let pages = subjects::enter_ours(&mut field, session, bytes + bytes / 8)?;
    session.findings.push(pages);
    subjects::enter_kernels(&mut field, session, bytes + bytes / 8)?;
    field.prepare(session, &FileOrder::Prepare { files: 1, file_bytes: plan.file_bytes })?;
    field.prepare(session, &FileOrder::Mix(plan.mixture))?;
    add_space(session, &field)?;
    let uncounted = tlb::missing();
    for answer in [JobMeasure::Rate, JobMeasure::Misses].into_iter().take(if uncounted.is_some() { 1 } else { 2 }) {
        cases.iter().try_for_each(|case| measure(session, &plan, &mut field, case, answer))?;
    }
    session.notes.extend(uncounted.map(|why| format!("this machine counts no TLB misses ({why})")));
    Ok(())
}

impl PagePlan {
    fn large(&self) -> impl Iterator<Item = PageCase> + '_ {
        let of = move |bytes: u64| VERBS.into_iter().map(move |verb| (bytes, verb));
        self.records.iter().copied().flat_map(of).map(|(record_bytes, (name, verb))| {
            let window_bytes = self.window_bytes.max(record_bytes);
            let (file_bytes, limit_us) = (self.file_bytes, self.limit_ms * 1000);
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
            PageCase { name: format!("{name} {}K", record_bytes >> 10), unit: "MB/s", order: Box::new(order) }
        })
    }

    fn mixed(&self) -> impl Iterator<Item = PageCase> + '_ {
        MIXTURES.into_iter().map(|(name, reads)| {
            let (mixture, limit_us) = (self.mixture, self.limit_ms * 1000);
            let order =
                move |seed, answer| FileOrder::Transact(Transactions { mixture, reads, limit_us, seed, answer });
            PageCase { name: name.into(), unit: "k/s", order: Box::new(order) }
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

const _: () = assert!(SUPER_THRESHOLD_BYTES <= 10 << 20, "the large files of a mixture move to superpages");

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "superpages",
    about: "large and small files on superpages and on normal pages, and TLB misses (chapter 5, figures 5.3 to 5.10)",
    expected_ms: [100_000, 11_000, 240],
    run,
    verdict: &[
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
    ],
    paper: &[
        claim("figures 5.3 and 5.4", 1.0, "TLB misses, SCMFS with superpages beside without: fewer"),
        claim("figures 5.5 and 5.6", 1.0, "throughput of IOzone, the same two: significantly more"),
        claim("figures 5.9 and 5.10", 1.0, "throughput of postmark, the same two: more"),
        claim("5.3.1", 1.01, "space lost within superpages: 1 % on average"),
    ],
    charts: &[
        ratios("Throughput, records of 4 KiB (figures 5.5 and 5.6)", "* 4K"),
        ratios("Throughput, records of 32 KiB (figures 5.5 and 5.6)", "* 32K"),
        ratios("Throughput, records of 128 KiB (figures 5.5 and 5.6)", "* 128K"),
        ratios("Throughput, records of 512 KiB (figures 5.5 and 5.6)", "* 512K"),
        ratios("Throughput, records of 2048 KiB (figures 5.5 and 5.6)", "* 2048K"),
        ratios("Throughput, records of 8192 KiB (figures 5.5 and 5.6)", "* 8192K"),
        ratios("Throughput (figures 5.9 and 5.10)", "small and large files*").unit("k/s"),
        ratios("TLB misses, records of 4 KiB (figures 5.3 and 5.4)", "* 4K, TLB misses"),
        ratios("TLB misses, records of 32 KiB (figures 5.3 and 5.4)", "* 32K, TLB misses"),
        ratios("TLB misses, records of 128 KiB (figures 5.3 and 5.4)", "* 128K, TLB misses"),
        ratios("TLB misses, records of 512 KiB (figures 5.3 and 5.4)", "* 512K, TLB misses"),
        ratios("TLB misses, records of 2048 KiB (figures 5.3 and 5.4)", "* 2048K, TLB misses"),
        ratios("TLB misses, records of 8192 KiB (figures 5.3 and 5.4)", "* 8192K, TLB misses"),
        ratios("TLB misses (figures 5.7 and 5.8)", "small and large files*, TLB misses"),
    ],
};

#[cfg(test)]
mod tests;
