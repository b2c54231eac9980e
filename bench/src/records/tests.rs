//! Orders on a folder of the kernel's, on a file system of ours, and on places of a mapping.

use std::fs;
use std::path::Path;

use super::*;
use crate::pool_tree::{OpenPool, PoolTree};

fn kernel(path: &Path) -> KernelFolder {
    KernelFolder { path: path.into(), syncs: false }
}

fn job(verb: RecordVerb, threads: u64) -> RecordJob {
    RecordJob {
        verb,
        record_bytes: 4096,
        threads,
        file_bytes: 1 << 20,
        window_bytes: 64 << 10,
        limit_us: 1_000_000,
        seed: 3,
        answer: JobMeasure::Rate,
    }
}

/// Files by name, with their sizes.
fn files(path: &Path) -> Vec<(String, u64)> {
    let entry = |entry: fs::DirEntry| {
        (entry.file_name().to_string_lossy().into_owned(), entry.metadata().expect("there").len())
    };
    let mut files: Vec<_> = fs::read_dir(path).expect("there").flatten().map(entry).collect();
    files.sort();
    files
}

#[test]
fn prepared_files_are_whole_and_are_cleared_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = kernel(folder.path());
    carry_out(&kernel, &FileOrder::Prepare { files: 2, file_bytes: (1 << 20) + 5 }).expect("made");
    assert_eq!(files(folder.path()), [("data-0".into(), (1 << 20) + 5), ("data-1".into(), (1 << 20) + 5)]);
    carry_out(&kernel, &FileOrder::Prepare { files: 1, file_bytes: 10 }).expect("made again");
    assert_eq!(files(folder.path())[0], ("data-0".into(), 10), "in place of those of before");
    carry_out(&kernel, &FileOrder::Clear { files: 2 }).expect("removed");
    assert_eq!(files(folder.path()), []);
}

#[test]
fn every_verb_works_and_leaves_the_prepared_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = kernel(folder.path());
    carry_out(&kernel, &FileOrder::Prepare { files: 3, file_bytes: 1 << 20 }).expect("made");
    let prepared = files(folder.path());
    for (name, verb) in RecordVerb::ALL {
        for threads in [1, 3] {
            let rate =
                carry_out(&kernel, &FileOrder::Work(job(verb, threads))).unwrap_or_else(|why| panic!("{name}: {why}"));
            assert!(rate.is_finite() && rate > 0.0, "{name} by {threads}: {rate}");
            assert_eq!(files(folder.path()), prepared, "{name} by {threads}");
        }
    }
}

#[test]
fn a_file_that_is_missing_is_an_error_with_its_path() {
    let folder = tempfile::tempdir().expect("a folder");
    let error = carry_out(&kernel(folder.path()), &FileOrder::Work(job(RecordVerb::Read, 1)))
        .expect_err("nothing was prepared");
    assert!(error.to_string().starts_with(&format!("opening {}/data-0: ", folder.path().display())), "{error}");
}

/// A thread that fails must not leave the others waiting for it.
#[test]
fn a_thread_that_fails_ends_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let kernel = kernel(folder.path());
    carry_out(&kernel, &FileOrder::Prepare { files: 1, file_bytes: 1 << 20 }).expect("made");
    carry_out(&kernel, &FileOrder::Work(job(RecordVerb::Read, 2))).expect_err("the second thread has no file");
}

#[test]
fn windows_take_turns_and_stay_in_the_file() {
    let places = |verb, seed| RecordJob { seed, ..job(verb, 1) }.places(0);
    let first = places(RecordVerb::Read, 0);
    assert_eq!((first.len(), first[0], first[15]), (16, 0, 60 << 10));
    assert_eq!(places(RecordVerb::Read, 1)[0], 64 << 10, "the next slice has the next window");
    assert_eq!(places(RecordVerb::Read, 16)[0], 0, "after the last window comes the first");
    assert_eq!(places(RecordVerb::Write, 5)[0], 0, "a new file begins at its beginning");
    let random = places(RecordVerb::RandomRead, 1);
    assert!(random.iter().all(|at| at % 4096 == 0 && *at < 1 << 20) && random != first, "{random:?}");
    assert_ne!(
        random,
        RecordJob { seed: 1, ..job(RecordVerb::RandomRead, 1) }.places(1),
        "threads read different places"
    );
}

#[test]
fn a_record_larger_than_the_window_is_a_window() {
    let large = RecordJob { record_bytes: 512 << 10, window_bytes: 4096, ..job(RecordVerb::Rewrite, 1) };
    assert_eq!((large.window_len(), large.windows(), large.places(0).len()), (512 << 10, 2, 1));
}

#[test]
fn names_are_made_asked_about_and_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, what) in NameVerb::ALL {
        let seconds =
            carry_out(&kernel(folder.path()), &FileOrder::Name(what, 20)).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(seconds > 0.0 && seconds < 1.0, "{name}: {seconds} a file");
        assert_eq!(files(folder.path()), [], "{name}");
    }
}

#[test]
fn a_mixture_is_made_and_stays_as_many_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let (kernel, mixture) = (kernel(folder.path()), Mixture { small: 20, large: 2, large_bytes: 256 << 10 });
    carry_out(&kernel, &FileOrder::Mix(mixture)).expect("made");
    let made = files(folder.path());
    assert_eq!(made.len(), 22);
    for (name, bytes) in &made {
        let range = if name.starts_with("large") { 256 << 10..=256 << 10 } else { 512..=32 << 10 };
        assert!(range.contains(bytes), "{name} has {bytes} bytes");
    }
    for reads in [10, 90] {
        let work = Transactions { mixture, reads, limit_us: 20_000, seed: 1, answer: JobMeasure::Rate };
        assert!(carry_out(&kernel, &FileOrder::Transact(work)).expect("it works") > 0.0);
        assert_eq!(files(folder.path()).len(), 22);
    }
}

/// Reads alone must change nothing: else one subject would leave another's files larger.
#[test]
fn transactions_that_read_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let (kernel, mixture) = (kernel(folder.path()), Mixture { small: 5, large: 1, large_bytes: 256 << 10 });
    carry_out(&kernel, &FileOrder::Mix(mixture)).expect("made");
    let made = files(folder.path());
    let work = Transactions { mixture, reads: 100, limit_us: 10_000, seed: 1, answer: JobMeasure::Rate };
    carry_out(&kernel, &FileOrder::Transact(work)).expect("it works");
    assert_eq!(files(folder.path()), made);
}

#[test]
fn our_file_system_carries_out_the_same_orders() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let open_pool = OpenPool::new(place.path(), 64 << 20).expect("a pool");
    let tree = PoolTree { open_pool, name: "x", cached: false, super_threshold_bytes: None, ssd: None };
    tree.make().expect("a file system");
    let library = LibraryFolder { fs: tree.open().expect("it opens") };
    carry_out(&library, &FileOrder::Prepare { files: 2, file_bytes: 1 << 20 }).expect("made");
    assert_eq!(library.stat("data-1").expect("there"), 1 << 20);
    for (name, verb) in RecordVerb::ALL {
        let rate = carry_out(&library, &FileOrder::Work(job(verb, 2))).unwrap_or_else(|why| panic!("{name}: {why}"));
        assert!(rate > 0.0, "{name}");
        library.finish_background().expect("nothing waits");
    }
    carry_out(&library, &FileOrder::Name(NameVerb::Create, 5)).expect("made and removed");
    carry_out(&library, &FileOrder::Clear { files: 2 }).expect("removed");
    library.stat("data-1").expect_err("it is removed");
    library.stat("name-000000").expect_err("it was removed");
}

#[test]
fn a_read_behind_the_end_is_told_as_short() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let open_pool = OpenPool::new(place.path(), 16 << 20).expect("a pool");
    let tree = PoolTree { open_pool, name: "x", cached: false, super_threshold_bytes: None, ssd: None };
    tree.make().expect("a file system");
    let library = LibraryFolder { fs: tree.open().expect("it opens") };
    let file = library.create("short").expect("made");
    file.write(0, &[7; 100]).expect("written");
    let error = file.read(50, &mut [0; 100]).expect_err("there are 50 bytes").to_string();
    assert_eq!(error, "the file system: a read ended after 50 bytes");
    drop(file);
    assert_eq!(
        library.create("short").map(drop).and_then(|()| library.stat("short")).expect("there"),
        0,
        "made empty again"
    );
}

#[test]
fn the_bare_copy_takes_records_and_no_names() {
    let place = tempfile::tempdir_in("/dev/shm").expect("a folder in memory");
    let mut places = BareFolder::new(place.path(), 4 << 20, false).expect("mapped");
    let mut appends = BareFolder::new(place.path(), 4 << 20, true).expect("mapped");
    for bare in [&mut places, &mut appends] {
        bare.order(&FileOrder::Prepare { files: 1, file_bytes: 1 << 20 }).expect("there is room");
        assert!(
            bare.takes(&FileOrder::Work(job(RecordVerb::Write, 1))) && !bare.takes(&FileOrder::Name(NameVerb::Stat, 1))
        );
        assert!(bare.order(&FileOrder::Work(job(RecordVerb::Write, 1))).expect("it works") > 0.0);
    }
    assert!(
        places.takes(&FileOrder::Work(job(RecordVerb::Read, 1)))
            && !appends.takes(&FileOrder::Work(job(RecordVerb::Read, 1)))
    );
}
