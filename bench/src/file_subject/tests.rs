//! Subjects without a mount: the bare copy and the library.

use super::*;
use crate::options::BenchProgress;
use crate::pool_tree::{OpenPool, PoolTree};
use crate::records::{JobMeasure, NameVerb, RecordJob, RecordVerb};
use crate::tests::{experiment, options};

fn field(place: &Path) -> Field<FileSubject> {
    let tree = PoolTree::of_small_files(&OpenPool::new(place, 64 << 20).expect("a pool"), "x");
    tree.make().expect("a file system");
    let mut field = Field::default();
    field.enter("library", FileSubject::Library(LibraryFolder { fs: tree.open().expect("it opens") }));
    field.enter("bare", FileSubject::Bare(BareFolder::new(place, 8 << 20, false).expect("mapped")));
    field
}

/// The bare copy has no names: a row of it would be a figure of nothing.
#[test]
fn a_case_has_the_subjects_that_can_carry_out_its_orders() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let (experiment, options, mut go_on) = (experiment(&[]), options(None), |_: &BenchProgress<'_>| true);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    let mut field = field(place.path());
    field.prepare(&mut session, &FileOrder::Prepare { files: 1, file_bytes: 1 << 20 }).expect("made");
    let race = |case| Race { case, unit: "x", rounds: 2, slice_ms: 1, beside: "library" };
    let work = |seed| {
        FileOrder::Work(RecordJob {
            verb: RecordVerb::Read,
            record_bytes: 4096,
            threads: 1,
            file_bytes: 1 << 20,
            window_bytes: 64 << 10,
            limit_us: 1000,
            seed,
            answer: JobMeasure::Rate,
        })
    };
    field.race(&mut session, &race("read"), &work, &|rate| rate).expect("it works");
    field.race(&mut session, &race("stat"), &|_| FileOrder::Name(NameVerb::Stat, 5), &|_| 7.0).expect("it works");
    let rows: Vec<_> = session.report.rows.iter().map(|row| (&*row.case, &*row.subject)).collect();
    assert_eq!(rows, [("read", "library"), ("read", "bare"), ("stat", "library")]);
    assert_eq!(session.report.rows[2].value, 7.0, "the value is what the case makes of the measure");
}

#[test]
fn a_program_that_is_missing_is_noted_with_its_subject() {
    let (experiment, options, mut go_on) = (experiment(&[]), options(None), |_: &BenchProgress<'_>| true);
    let mut session = BenchSession::new(&experiment, &options, &mut go_on);
    assert!(has_program(&mut session, "a shell", "sh") && !has_program(&mut session, "xfs cached", "mkfs.none"));
    assert_eq!(session.notes, ["xfs cached was left out: there is no mkfs.none"]);
    let why = mounting(&session).expect_err("there is no program for workers");
    assert!(!why.is_empty(), "the note has a reason");
}
