//! Files by records (zonfs.txt, figures 5 and 6): written and read as IOzone does, by every way into our file system,
//! beside the kernel's file systems in memory, and a bare copy with its fence, which is the bound of this machine; then
//! files by name, and the time of mounting a full pool.
//!
//! The paper's file is 10 GB and read as a whole; here each slice works on a window of a smaller file, and windows take
//! turns, so that what is read has left the processor's caches since it was written.

use crate::Result;
use crate::field::Field;
use crate::file_subject::FileSubject;
use crate::options::{BenchOptions, Length, ProgressWatch};
use crate::records::{FileOrder, JobMeasure, NameVerb, RecordJob, RecordVerb};
use crate::report::{BenchReport, ChartMeasure, PaperClaim, claim};
use crate::session::{BenchSession, Race};
use crate::verdict::{VerdictEntry, figure, figures, line};

mod many_files;
mod subjects;

use subjects::{
    BARE, BARE_APPEND, CACHED, EXT4, EXT4_CACHED, HOLLOW, LIBRARY, MOUNT, NAMES, RAMFS, RUN, TMPFS, TMPFS_HUGE,
    XFS_CACHED,
};

/// Records of the cases that differ in threads.
const THREADED_BYTES: u64 = 4 << 10;
/// Records of the case that appends to a page many times.
const APPENDED_BYTES: u64 = 64;

/// The sizes and durations of the experiment.
pub(crate) struct RecordPlan {
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
    many_files: u64,
}

impl RecordPlan {
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
                many_files: 1_000_000,
            },
            Length::Quick => Self {
                file_bytes: 192 << 20,
                window_bytes: 8 << 20,
                limit_ms: 4,
                rounds: 21,
                records: &[4 << 10, 64 << 10, 1 << 20],
                threads: &[2],
                names: 300,
                many_files: 1_000_000,
            },
            Length::Smoke => Self {
                file_bytes: 4 << 20,
                window_bytes: 1 << 20,
                limit_ms: 1,
                rounds: 1,
                records: &[4 << 10, 1 << 20],
                threads: &[3],
                names: 10,
                many_files: 1000,
            },
        }
    }

    fn total_ms(&self) -> u64 {
        let cases = 6 * (self.records.len() + self.threads.len()) + 1 + NameVerb::ALL.len();
        let slices = cases as u64 * (self.rounds as u64 + 1) * NAMES.len() as u64;
        slices * self.limit_ms + many_files::TOTAL_MS
    }
}

/// A case: a verb, the bytes of a record, and the number of threads.
#[derive(Clone, Copy)]
struct RecordCase {
    verb: (&'static str, RecordVerb),
    record_bytes: u64,
    threads: u64,
}

impl RecordCase {
    fn name(&self) -> String {
        let threads = if self.threads == 1 { String::new() } else { format!(", {} threads", self.threads) };
        format!("{} {}{threads}", self.verb.0, length(self.record_bytes))
    }
}

/// The bytes of a record in the names of cases.
fn length(bytes: u64) -> String {
    if bytes < 1 << 10 { format!("{bytes} B") } else { format!("{}K", bytes >> 10) }
}

/// Runs the experiment.
pub fn run(options: &BenchOptions, on_progress: ProgressWatch<'_>) -> Result<BenchReport> {
    let plan = RecordPlan::of(options.length);
    let mut session = BenchSession::new("zones", &PAPER, plan.total_ms(), options, on_progress);
    by_records(&mut session, &plan)?;
    many_files::measure(&mut session, &plan)?;
    Ok(session.end(VERDICT, None))
}

fn by_records(session: &mut BenchSession<'_>, plan: &RecordPlan) -> Result<()> {
    let of = |threads, record_bytes| RecordVerb::ALL.map(|verb| RecordCase { verb, record_bytes, threads });
    let wanted = |cases: Vec<RecordCase>| -> Vec<RecordCase> {
        cases.into_iter().filter(|case| session.options.wants(&case.name())).collect()
    };
    let alone = plan.records.iter().map(|bytes| wanted(of(1, *bytes).into()));
    let together = plan.threads.iter().map(|threads| wanted(of(*threads, THREADED_BYTES).into()));
    let (verb, record_bytes) = (RecordVerb::ALL[0], APPENDED_BYTES);
    let appended = wanted(vec![RecordCase { verb, record_bytes, threads: 1 }]);
    let groups: Vec<Vec<RecordCase>> = std::iter::once(appended).chain(alone).chain(together).collect();
    let names = NameVerb::ALL;
    let names: Vec<_> = names.into_iter().filter(|(name, _)| session.options.wants(name)).collect();
    if groups.iter().all(Vec::is_empty) && names.is_empty() {
        return Ok(());
    }
    session.announce("mounting")?;
    let mut field = subjects::enter_all(session, plan.file_bytes, plan.window_bytes)?;
    // Cases of as many threads share their files.
    for same in groups.chunk_by(|one, next| threads_of(one) == threads_of(next)) {
        let cases: Vec<RecordCase> = same.concat();
        if !cases.is_empty() {
            work(session, plan, &mut field, &cases)?;
        }
    }
    for (case, what) in &names {
        let race = Race { case, unit: "us", rounds: plan.rounds, slice_ms: plan.limit_ms, beside: TMPFS };
        field.race(session, &race, &|_| FileOrder::Name(*what, plan.names), &|seconds| seconds * 1e6)?;
    }
    charts(session, plan, &groups, &names);
    Ok(())
}

fn threads_of(cases: &[RecordCase]) -> Option<u64> {
    cases.first().map(|case| case.threads)
}

/// Measures `cases`, all of as many threads, on files of their own.
fn work(
    session: &mut BenchSession<'_>,
    plan: &RecordPlan,
    field: &mut Field<FileSubject>,
    cases: &[RecordCase],
) -> Result<()> {
    let threads = cases[0].threads;
    let file_bytes = (plan.file_bytes / threads / (1 << 20) * (1 << 20)).max(1 << 20);
    let window_bytes = (plan.window_bytes / threads).max(THREADED_BYTES);
    field.prepare(session, &FileOrder::Prepare { files: threads, file_bytes })?;
    for case in cases {
        let order = |seed| {
            let (verb, record_bytes, limit_us) = (case.verb.1, case.record_bytes, plan.limit_ms * 1000);
            FileOrder::Work(RecordJob {
                verb,
                record_bytes,
                threads,
                file_bytes,
                window_bytes,
                limit_us,
                seed,
                answer: JobMeasure::Rate,
            })
        };
        let (name, rounds, slice_ms) = (case.name(), plan.rounds, plan.limit_ms);
        let race = Race { case: &name, unit: "MB/s", rounds, slice_ms, beside: TMPFS };
        field.race(session, &race, &order, &|rate| rate / 1e6)?;
    }
    let clear = FileOrder::Clear { files: threads };
    field.entries.iter_mut().try_for_each(|(_, entrant)| entrant.order(&clear).map(drop))
}

fn charts(session: &mut BenchSession<'_>, plan: &RecordPlan, groups: &[Vec<RecordCase>], names: &[(&str, NameVerb)]) {
    let bytes = plan.file_bytes >> 20;
    for cases in groups.iter().filter(|cases| !cases.is_empty()) {
        let RecordCase { record_bytes, threads, .. } = cases[0];
        let (records, figure) = (length(record_bytes), if threads == 1 { 5 } else { 6 });
        let title = format!("Records of {records}, threads: {threads}, files of {bytes} MiB (figure {figure})");
        session.chart(&title, ChartMeasure::Ratio, cases.iter().map(RecordCase::name).collect());
    }
    if !names.is_empty() {
        let names = names.iter().map(|(name, _)| (*name).to_owned()).collect();
        session.chart("Files by name: time", ChartMeasure::Ratio, names);
    }
}

/// The ways in, beside tmpfs and beside tmpfs in huge pages.
const WAYS: &[VerdictEntry] = &[
    figure("library", LIBRARY),
    figure("ferrite run", RUN),
    figure("mount", MOUNT),
    figure("mount --cached", CACHED),
    figure("ext4 fdatasync", EXT4),
    figure("library beside huge pages", LIBRARY).beside(TMPFS_HUGE),
    figure("ferrite run beside huge pages", RUN).beside(TMPFS_HUGE),
    figure("mount beside huge pages", MOUNT).beside(TMPFS_HUGE),
    figure("mount --cached beside huge pages", CACHED).beside(TMPFS_HUGE),
    figure("ext4 fdatasync beside huge pages", EXT4).beside(TMPFS_HUGE),
];

/// The bounds of the machine and of the kernel, beside tmpfs.
const BOUNDS: &[VerdictEntry] = &[
    figure("the bare copy", BARE),
    figure("the bare copy beside huge pages", BARE).beside(TMPFS_HUGE),
    figure("a cached mount whose server keeps nothing", HOLLOW),
    figure("that mount beside huge pages", HOLLOW).beside(TMPFS_HUGE),
    figure("ext4 on a disk of memory", EXT4_CACHED),
    figure("xfs on a disk of memory", XFS_CACHED),
];

const VERDICT: &[VerdictEntry] = &[
    line("4 KiB writes by one thread beside tmpfs, where nothing is durable (paper: 1.06 to 1.14)", "*write 4K"),
    figures(WAYS),
    line("4 KiB reads by one thread beside tmpfs (paper: 1.06 to 1.14)", "*read 4K"),
    figures(WAYS),
    line("bounds of 4 KiB writes beside tmpfs", "*write 4K"),
    figures(BOUNDS),
    line("bounds of 4 KiB reads beside tmpfs", "*read 4K"),
    figures(BOUNDS),
    line("bound of first writes, where a size with a fence of its own follows each copy, beside tmpfs", "write 4K"),
    figure("bare append", BARE_APPEND),
    figure("bare append beside huge pages", BARE_APPEND).beside(TMPFS_HUGE),
    line("library beside its bounds", ""),
    figure("first writes", LIBRARY).case("write 4K").beside(BARE_APPEND),
    figure("later writes", LIBRARY).case("*write 4K").except("write 4K").beside(BARE),
    figure("reads", LIBRARY).case("*read 4K").beside(BARE),
    line("ferrite run beside its bounds", ""),
    figure("first writes", RUN).case("write 4K").beside(BARE_APPEND),
    figure("later writes", RUN).case("*write 4K").except("write 4K").beside(BARE),
    figure("reads", RUN).case("*read 4K").beside(BARE),
    line("mount --cached beside its bound", ""),
    figure("writes", CACHED).case("*write 4K").beside(HOLLOW),
    figure("reads", CACHED).case("*read 4K").beside(HOLLOW),
    line("appends of 64 bytes", "write 64 B"),
    figure("library", LIBRARY).time_of(64.0),
    figure("ferrite run", RUN).time_of(64.0),
    line("records of 1 MiB beside tmpfs", "* 1024K"),
    figure("library", LIBRARY),
    line("files by name, times as fast as ramfs", ""),
    figure("create and close", LIBRARY).case("create and close").beside(RAMFS).inverse(),
    figure("stat again", LIBRARY).case("stat again").beside(RAMFS).inverse(),
    figure("unlink", LIBRARY).case("unlink").beside(RAMFS).inverse(),
    line("mount of a pool with a million files", many_files::CASE),
    figure("", many_files::FULL).value("ms"),
];

const PAPER: [PaperClaim; 6] = [
    claim("figure 5(a)", 1.114, "write 4K, ZonFS beside tmpfs"),
    claim("figure 5(a)", 1.075, "write 4K, ZonFS beside ramfs"),
    claim("figure 5(f)", 1.058, "re-read, ZonFS beside tmpfs, at best"),
    claim("section V", 1.138, "write, ZonFS beside tmpfs, at best"),
    claim("section V", 1.091, "write, ZonFS beside ramfs, at best"),
    claim("figure 6", 1.0, "any number of threads, ZonFS beside tmpfs: no significant difference"),
];

#[cfg(test)]
mod tests;
