//! WD1 to WD4 and the promise of an append, at every instant and in every image.

use ferrite_crash::Crash;
use ferrite_crash::CrashReport;
use ferrite_crash::explore;
use ferrite_crash::options;
use ferrite_memory::planted::plant;

use super::folder::OPERATION;
use super::*;

/// Returns the acknowledged records, and the folder's newest mark.
fn last_marks(crash: &Crash<'_>) -> (u64, u64) {
    let newest = |operation: bool| {
        crash
            .marks()
            .iter()
            .rev()
            .find(|mark| (*mark & OPERATION != 0) == operation)
            .map_or(0, |mark| mark & !OPERATION)
    };
    (newest(false), newest(true))
}

/// Recovers; everything acknowledged is there; draining it all and appending more changes none of it. A crash in that
/// draining is explored, too.
fn judge(crash: &Crash<'_>, folder: &LyingFolder, depth: u32) -> Verdict {
    let (acknowledged, operations) = last_marks(crash);
    let variant = crash.place().variant;
    let folder = folder.crash_at(operations, variant ^ crash.place().point << 20);
    let memory = Arc::new(crash.memory());
    let wal = open(&memory, &folder)?;
    let found = numbers(&wal)?;
    runs(&found, 0, acknowledged)?;
    let count = found.len() as u64;
    memory.forget_trace();
    memory.mark(count);
    folder.record_in(&memory);
    wal.drain().map_err(|error| error.to_string())?;
    if depth > 0 && variant % 16 == 0 {
        let nested = explore(&memory, &options(8, 4), |crash| judge(crash, &folder, depth - 1));
        nested.failure.map_or(Ok(()), |failure| Err(format!("within recovery: {failure}")))?;
    }
    wal.append(&payload(count), Strict).map_err(|error| error.to_string())?;
    runs(&numbers(&wal)?, 0, count + 1)?;
    drop(wal);
    let wal = open(&memory, &folder)?;
    runs(&numbers(&wal)?, 0, count + 1)?;
    // Also if no record is left before it in the ring, no record that a crash left behind the end comes back (W4).
    wal.drain().map_err(|error| error.to_string())?;
    drop(wal);
    let wal = open(&memory, &folder)?;
    let found = numbers(&wal)?;
    if found.len() as u64 == count + 1 { Ok(()) } else { Err(format!("W4: {found:?} after {count} and an append")) }
}

/// Runs appends of both kinds, commits and steps of draining, several times around the ring.
fn traffic(model: Model, plan: &[(u64, Durability, u64)], prepare: impl Fn(&LyingFolder)) -> CrashReport {
    let (memory, folder) = (new_pool(model), LyingFolder::default());
    let wal = create(&memory, &folder);
    // Nearly once around, so that the exploration covers the ring's end.
    wal.append_many(&(0..10).map(|_| [0; 600].as_slice()).collect::<Vec<_>>(), Strict).unwrap();
    wal.truncate(wal.standing().end).unwrap();
    prepare(&folder);
    memory.forget_trace();
    folder.record_in(&memory);
    let mut end = 0;
    for (together, durability, steps) in plan {
        let payloads: Vec<Vec<u8>> = (end..end + together).map(payload).collect();
        wal.append_many(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>(), *durability).unwrap();
        end += together;
        if *durability == Strict {
            memory.mark(end);
        }
        for _ in 0..*steps {
            wal.step().unwrap();
            wal.set_segment_bytes(4096 + 128);
        }
    }
    assert!(wal.standing().end.number() > CAPACITY / 64, "it did not go around");
    explore(&memory, &options(1 << 9, 40), |crash| judge(crash, &folder, 1))
}

use Durability::{Relaxed, Strict};

const PLAN: [(u64, Durability, u64); 7] =
    [(1, Strict, 0), (2, Relaxed, 1), (3, Strict, 1), (1, Strict, 4), (3, Relaxed, 3), (2, Strict, 1), (1, Relaxed, 5)];

#[test]
fn wd1_wd2_wd4_crash_keeps_what_was_acknowledged_in_the_ring_or_a_file() {
    for model in Model::ALL {
        let report = traffic(model, &PLAN, |_| {});
        println!("wal: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_sync_that_does_nothing_is_caught() {
    traffic(Model::MAPPED, &PLAN, LyingFolder::be_deaf).expect_failure();
}

#[test]
fn canaries_planted_in_the_code_are_caught() {
    for bug in [
        "wal: drain cuts before it syncs the segment",
        "wal: strict append does not fence",
        "wal: drain copies records before they are durable",
        "wal: ring keeps lines behind its end",
    ] {
        let caught = Model::ALL.iter().any(|model| {
            let plan: Vec<_> = PLAN.iter().chain(&PLAN).copied().collect();
            let _planted = plant(bug);
            std::panic::catch_unwind(|| traffic(*model, &plan, |_| {}).failure.is_some()).unwrap_or(true)
        });
        assert!(caught, "{bug:?} was not noticed");
    }
}

/// An interrupted truncation is completed, or has not begun.
#[test]
fn wd1_crash_in_a_truncation_leaves_all_or_forgets_all_of_it() {
    for model in Model::ALL {
        let (memory, folder) = (new_pool(model), LyingFolder::default());
        let wal = create(&memory, &folder);
        let at: Vec<LogPosition> = (0..30).map(|number| wal.append(&payload(number), Strict).unwrap()).collect();
        wal.drain().unwrap();
        wal.append(&payload(30), Strict).unwrap();
        memory.forget_trace();
        folder.record_in(&memory);
        wal.truncate(at[20]).unwrap();
        memory.mark(20);
        wal.truncate(wal.standing().end).unwrap();
        memory.mark(31);
        let report = explore(&memory, &options(1 << 9, 60), |crash| {
            let (least, _) = last_marks(crash);
            let wal = open(&Arc::new(crash.memory()), &folder.crash_at(last_marks(crash).1, 1))?;
            let found = numbers(&wal)?;
            let first = found.first().copied().unwrap_or(31);
            if [0, 20, 31].contains(&first) && first >= least {
                runs(&found, first, 31)
            } else {
                Err(format!("{found:?}"))
            }
        });
        println!("truncated: {report}");
        report.assert_clean();
    }
}

/// W4: a crash lost the first record of a group. Another record took its place, and all was drained.
#[test]
fn w4_what_a_crash_left_of_a_group_does_not_come_back_when_all_before_it_is_drained() {
    let (memory, folder) = (new_pool(Model::MAPPED), LyingFolder::default());
    let wal = create(&memory, &folder);
    let group = [payload(0), payload(1), payload(2)];
    wal.append_many(&group.each_ref().map(Vec::as_slice), Strict).unwrap();
    let first = wal.holding.stream(Role::DATA).locate(0).unwrap().at;
    drop(wal);
    memory.store_word(first + 24, 7);
    let wal = open(&memory, &folder).unwrap();
    wal.append(&payload(0), Strict).unwrap();
    wal.drain().unwrap();
    drop(wal);
    assert_eq!(numbers(&open(&memory, &folder).unwrap()).unwrap(), [0]);
}
