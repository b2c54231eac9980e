//! Files by records (zonfs.txt, figures 5 and 6): written and read as IOzone does, by every way into our file system,
//! beside the kernel's file systems in memory, and a bare copy with its fence, which is the bound of this machine; then
//! files by name, and the time of mounting a full pool.
//!
//! The paper's file is 10 GB and read as a whole; here each slice works on a window of a smaller file, and windows take
//! turns, so that what is read has left the processor's caches since it was written.

use crate::Result;
use crate::field::Field;
use crate::file_subject::FileSubject;
use crate::options::Length;
use crate::records::{FileOrder, JobMeasure, NameVerb, RecordJob, RecordVerb};
use crate::report::claim;
use crate::session::{BenchSession, Experiment, Race};
use crate::verdict::{TableEntry, figure, figures, line, ratios};

mod many_files;
mod subjects;

use subjects::{
    BARE, BARE_APPEND, CACHED, EXT4, EXT4_CACHED, HOLLOW, LIBRARY, MOUNT, RAMFS, RUN, TIERED, TMPFS, TMPFS_HUGE,
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
        Self {
            file_bytes: length.pick([512 << 20, 192 << 20, 4 << 20]),
            window_bytes: length.pick([16 << 20, 8 << 20, 1 << 20]),
            limit_ms: length.pick([10, 4, 1]),
            rounds: length.pick([31, 21, 1]),
            records: length.pick([
                &[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20],
                &[4 << 10, 64 << 10, 1 << 20],
                &[4 << 10, 1 << 20],
            ]),
            threads: length.pick([&[2, 4, 10, 20, 40], &[2], &[3]]),
            names: length.pick([1000, 300, 10]),
            many_files: length.pick([1_000_000, 1_000_000, 1000]),
        }
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

fn run(session: &mut BenchSession<'_>) -> Result<()> {
    let plan = RecordPlan::of(session.options.length);
    by_records(session, &plan)?;
    many_files::measure(session, &plan)
}

fn by_records(session: &mut BenchSession<'_>, plan: &RecordPlan) -> Result<()> {
    let of = |threads, record_bytes| RecordVerb::ALL.map(|verb| RecordCase { verb, record_bytes, threads });
    let appended = RecordCase { verb: RecordVerb::ALL[0], record_bytes: APPENDED_BYTES, threads: 1 };
    let alone = plan.records.iter().flat_map(|bytes| of(1, *bytes));
    let together = plan.threads.iter().flat_map(|threads| of(*threads, THREADED_BYTES));
    let cases = session.wanted([appended].into_iter().chain(alone).chain(together), RecordCase::name);
    let names = session.wanted(NameVerb::ALL, |(name, _)| *name);
    if cases.is_empty() && names.is_empty() {
        return Ok(());
    }
    session.announce("mounting")?;
    let mut field = subjects::enter_all(session, plan.file_bytes, plan.window_bytes)?;
    // Cases of as many threads share their files.
    for same in cases.chunk_by(|one, next| one.threads == next.threads) {
        work(session, plan, &mut field, same)?;
    }
    for (case, what) in names {
        let race = Race { case, unit: "us", rounds: plan.rounds, slice_ms: plan.limit_ms, beside: TMPFS };
        field.race(session, &race, &|_| FileOrder::Name(what, plan.names), &|seconds| seconds * 1e6)?;
    }
    Ok(())
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

/// The ways in, beside tmpfs and beside tmpfs in huge pages.
const WAYS: &[TableEntry] = &[
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
const BOUNDS: &[TableEntry] = &[
    figure("the bare copy", BARE),
    figure("the bare copy beside huge pages", BARE).beside(TMPFS_HUGE),
    figure("a cached mount whose server keeps nothing", HOLLOW),
    figure("that mount beside huge pages", HOLLOW).beside(TMPFS_HUGE),
    figure("ext4 on a disk of memory", EXT4_CACHED),
    figure("xfs on a disk of memory", XFS_CACHED),
];

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zones",
    about: "files by records, by threads and by name, in every way in, beside memory's file systems (ZonFS, figures 5 and 6)",
    expected_ms: [276_000, 39_000, 6600],
    run,
    verdict: &[
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
        line("library with an idle tier beside one without, wanted 0.995 at least", ""),
        figure("later writes", TIERED).case("*write 4K").except("write 4K").beside(LIBRARY).fine(),
        figure("reads", TIERED).case("*read 4K").beside(LIBRARY).fine(),
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
    ],
    paper: &[
        claim("figure 5(a)", 1.114, "write 4K, ZonFS beside tmpfs"),
        claim("figure 5(a)", 1.075, "write 4K, ZonFS beside ramfs"),
        claim("figure 5(f)", 1.058, "re-read, ZonFS beside tmpfs, at best"),
        claim("section V", 1.138, "write, ZonFS beside tmpfs, at best"),
        claim("section V", 1.091, "write, ZonFS beside ramfs, at best"),
        claim("figure 6", 1.0, "any number of threads, ZonFS beside tmpfs: no significant difference"),
    ],
    charts: &[
        ratios("Records of 64 bytes by one thread", "* 64 B"),
        ratios("Records of 4 KiB by one thread (figure 5)", "* 4K"),
        ratios("Records of 16 KiB by one thread (figure 5)", "* 16K"),
        ratios("Records of 64 KiB by one thread (figure 5)", "* 64K"),
        ratios("Records of 256 KiB by one thread (figure 5)", "* 256K"),
        ratios("Records of 1024 KiB by one thread (figure 5)", "* 1024K"),
        ratios("Records of 4 KiB by 2 threads (figure 6)", "*, 2 threads"),
        ratios("Records of 4 KiB by 4 threads (figure 6)", "*, 4 threads"),
        ratios("Records of 4 KiB by 10 threads (figure 6)", "*, 10 threads"),
        ratios("Records of 4 KiB by 20 threads (figure 6)", "*, 20 threads"),
        ratios("Records of 4 KiB by 40 threads (figure 6)", "*, 40 threads"),
        ratios("Files by name: time", "*").unit("us"),
    ],
};

#[cfg(test)]
mod tests;
