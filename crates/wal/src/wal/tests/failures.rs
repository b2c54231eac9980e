//! The ring is full; the folder is full, failing, forgetful, gone, or another log's.

use super::folder::{Failure, SlowFolder};
use super::*;
use crate::segment::{SegmentDirectory, SegmentFolder};

/// Far more than the ring holds, by a single thread: it drains for itself.
#[test]
fn a_full_ring_is_drained_by_who_appends() {
    for model in Model::ALL {
        let (memory, folder) = (new_pool(model), LyingFolder::default());
        let wal = create(&memory, &folder);
        memory.keep_trace(false);
        for number in 0..300 {
            let durability = if number % 3 == 0 { Durability::Strict } else { Durability::Relaxed };
            wal.append(&payload(number), durability).unwrap();
        }
        wal.commit().unwrap();
        runs(&numbers(&wal).unwrap(), 0, 300).unwrap();
    }
}

/// Each call of the folder fails once, in turn, or for a while: every append either reports that its record is not in
/// the log, or is in it. After the folder recovers, draining continues.
#[test]
fn wd3_a_folder_that_fails_at_any_call_loses_nothing() {
    let run = |failing: Option<(u64, u64, Failure)>| {
        let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
        let wal = create(&memory, &folder);
        memory.keep_trace(false);
        failing.inspect(|(first, count, how)| folder.fail(*first, *count, *how));
        let (mut number, mut stuck) = (0, 0);
        while number < 60 {
            match wal.append(&payload(number), Durability::Strict) {
                Ok(_) => number += 1,
                Err(Error::Stuck { why, .. }) => {
                    assert!(why.to_string().contains("still in the pool"), "{why}");
                    stuck += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        while wal.drain().is_err() {
            stuck += 1;
        }
        folder.fail(0, 0, Failure::Full);
        // The state after a power failure: only synced bytes.
        let after = folder.crash(0);
        runs(&numbers(&open(&memory, &after).unwrap()).unwrap(), 0, 60).unwrap();
        (folder.calls(), stuck)
    };
    let (calls, stuck) = run(None);
    assert_eq!(stuck, 0);
    for first in 0..calls {
        for how in [Failure::Full, Failure::Forgetful] {
            let (_, stuck) = run(Some((first, 1 + first % 3, how)));
            assert!(stuck > 0, "call {first} did not fail anything");
        }
    }
}

#[test]
fn records_in_a_damaged_or_missing_file_are_told_by_name_and_the_others_stay_readable() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    (0..100).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    wal.drain().unwrap();
    let (first, second) = (folder.names()[0], folder.names()[1]);
    folder.damage(first, 4096 + 70);
    let error = wal.records().last().unwrap().unwrap_err().to_string();
    assert_eq!(error.split(':').next(), Some("segment 0 of log \"log\" is damaged at byte 0x1040"), "{error}");
    assert_eq!(
        wal.records_from(LogPosition::from_number(second)).filter(Result::is_ok).count(),
        wal.records_from(LogPosition::from_number(second)).count()
    );
    folder.damage(second, 20);
    let error = wal.records_from(LogPosition::from_number(second)).last().unwrap().unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("segment {second} is not one of log \"log\" (its header is damaged)")),
        "{error}"
    );
    drop(wal);
    folder.clone().remove(first).unwrap();
    let wal = open(&memory, &folder).unwrap();
    let error = wal.records().last().unwrap().unwrap_err().to_string();
    assert!(error.starts_with("position 0 of log \"log\" is in no file of "), "{error}");
    assert!(!error.contains("drain"), "{error}");
}

/// WD1: a truncation between the syncing of records and the cut behind them has cut them.
#[test]
fn wd1_a_truncation_amid_draining_is_no_failure() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    let append = |number| _ = wal.append(&payload(number), Durability::Strict).unwrap();
    (0..4).for_each(append);
    assert_eq!([wal.step().unwrap(), wal.step().unwrap()], [DrainStep::Moved; 2], "written, then synced");
    append(4);
    wal.truncate(wal.standing().end).unwrap();
    wal.step().unwrap();
    (5..200).for_each(append);
    wal.drain().unwrap();
    runs(&numbers(&open(&memory, &folder.crash(0)).unwrap()).unwrap(), 5, 200).unwrap();
}

#[test]
fn a_file_that_could_not_be_removed_is_by_the_next_truncation() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    (0..100).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    wal.drain().unwrap();
    assert!(folder.names().len() > 1, "{:?}", folder.names());
    let end = wal.standing().end;
    // The first call reads the old segment, the second removes it.
    folder.fail(1, 1, Failure::Full);
    let error = wal.truncate(end).unwrap_err().to_string();
    assert!(error.starts_with("removing segment 0 in ") && !error.contains("drain"), "{error}");
    wal.truncate(end).unwrap();
    assert_eq!(folder.names().len(), 1);
}

/// A folder on a file system that goes away: the error names it, nothing is lost, and draining continues when it is
/// back.
#[test]
fn a_folder_that_is_gone_is_told_by_its_path_and_taken_up_again_when_it_is_back() {
    let (memory, place) = (new_pool(Model::MAPPED), tempfile::tempdir().unwrap());
    let path = place.path().join("logs");
    let directory = Box::new(SegmentDirectory::new(&path).unwrap());
    let wal =
        Wal::create(&open_pool(&memory).unwrap(), "log", &WalSpec { capacity_bytes: CAPACITY }, directory).unwrap();
    (0..5).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    wal.drain().unwrap();
    (5..10).for_each(|number| _ = wal.append(&payload(number), Durability::Strict).unwrap());
    let away = place.path().join("away");
    std::fs::rename(&path, &away).unwrap();
    let error = wal.drain().unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("still in the pool"), "{error}");
    assert!(wal.drain().is_err());
    std::fs::rename(&away, &path).unwrap();
    wal.drain().unwrap();
    drop(wal);
    let directory = Box::new(SegmentDirectory::new(&path).unwrap());
    let wal = Wal::open(&open_pool(&memory).unwrap(), "log", directory).unwrap();
    runs(&numbers(&wal).unwrap(), 0, 10).unwrap();
}

/// While the folder is in the middle of a write, appends continue until the ring is full; a thread that finds it full
/// waits for the folder, and for nothing else. Nothing is lost, and no thread waits for ever.
#[test]
fn a_slow_folder_holds_back_only_who_finds_the_ring_full() {
    for durability in [Durability::Strict, Durability::Relaxed] {
        let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
        let (slow, entered, let_go) = SlowFolder::new(&folder);
        let spec = WalSpec { capacity_bytes: CAPACITY };
        let wal = &Wal::create(&open_pool(&memory).unwrap(), "log", &spec, Box::new(slow)).unwrap();
        let append = move |number| wal.append(&payload(number), durability);
        append(0).unwrap();
        std::thread::scope(|scope| {
            let draining = scope.spawn(|| wal.step());
            entered.recv().unwrap();
            let mut next = 1;
            let fits = |number| {
                let WalStanding { head, end, .. } = wal.standing();
                end.number() - head.number() + TagLog::lines_for(payload(number).len()) <= CAPACITY / 64
            };
            while fits(next) {
                append(next).unwrap();
                next += 1;
            }
            assert!(next > 20, "{next} appends went on");
            let full = wal.standing();
            let late: Vec<_> = (next..next + 3).map(|number| scope.spawn(move || append(number))).collect();
            wal.commit().unwrap();
            // One of the late records may be small enough for the remaining space.
            let WalStanding { head, end, .. } = wal.standing();
            assert_eq!(head, full.head, "nothing was drained");
            assert!(end.number() - head.number() <= CAPACITY / 64, "a place that was not free");
            drop(let_go);
            draining.join().unwrap().unwrap();
            late.into_iter().for_each(|append| _ = append.join().unwrap().unwrap());
            wal.drain().unwrap();
            // The late records came in any order.
            let mut found = numbers(wal).unwrap();
            found.sort_unstable();
            runs(&found, 0, next + 3).unwrap();
        });
    }
}

#[test]
fn another_logs_folder_is_refused_untouched() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let pool = open_pool(&memory).unwrap();
    let spec = WalSpec { capacity_bytes: CAPACITY };
    let [one, two] = ["one", "two"].map(|name| Wal::create(&pool, name, &spec, Box::new(folder.clone())).unwrap());
    one.append(b"of one", Durability::Strict).unwrap();
    one.append(b"of one", Durability::Strict).unwrap();
    one.drain().unwrap();
    two.append(b"of two", Durability::Strict).unwrap();
    one.append(b"of one", Durability::Strict).unwrap();
    let error = two.drain().unwrap_err().to_string();
    assert!(error.starts_with("segment 0 is not one of log \"two\" (another log's)"), "{error}");
    one.drain().unwrap();
    assert!(one.records().all(|record| record.unwrap().1 == b"of one"));
}

/// Nothing of it is wiped as if it stood behind a log's end.
#[test]
fn what_is_no_log_is_not_opened_as_one() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let pool = open_pool(&memory).unwrap();
    let mut spec = Wal::tag_spec("a", &WalSpec { capacity_bytes: CAPACITY }).unwrap();
    for (kind, name) in [(TagKind::DISK, "disk"), (TagKind::FILES, "file system")] {
        (spec.name, spec.kind) = (name.into(), kind.0);
        spec.create(&pool).unwrap();
        let error = Wal::open(&pool, name, Box::new(folder.clone())).unwrap_err().to_string();
        assert_eq!(error, format!("tag {name:?} is of kind {name}, not log"));
    }
}

/// A failed barrier poisons: every further append is refused, and acknowledged records are there after opening.
#[test]
fn a_failed_barrier_ends_appends_and_keeps_what_was_acknowledged() {
    for nth in 0..8 {
        let (memory, folder) = (new_pool(Model::FILE), LyingFolder::default());
        let wal = create(&memory, &folder);
        let mut acknowledged = 0;
        memory.fail_nth(memory.calls() + nth);
        while acknowledged < 8 && wal.append(&payload(acknowledged), Durability::Strict).is_ok() {
            acknowledged += 1;
        }
        assert!(acknowledged < 8, "nothing failed");
        assert!(wal.append(&payload(9), Durability::Strict).unwrap_err().to_string().contains("poisoned"));
        for seed in 0..8 {
            let found = numbers(&open(&Arc::new(memory.crash(seed)), &folder).unwrap()).unwrap();
            runs(&found, 0, acknowledged).unwrap();
        }
    }
}
