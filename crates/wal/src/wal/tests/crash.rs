//! WD1 to WD4 and the promise of an append, at every instant and in every image of the memory and of each file.

use ferrite_crash::{Crash, CrashReport, explore, explore_kills, options};
use ferrite_memory::planted::plant;

use super::segment_disks::{SegmentDisks, world_of};
use super::*;

/// Recovers; everything acknowledged is there; draining it all and appending more changes none of it. A crash in that
/// draining is explored, too.
fn judge(crash: &Crash<'_>, depth: u32) -> Verdict {
    let variant = crash.place().variant;
    let world = crash.world();
    let (memory, folder) = (world.memory(), SegmentDisks::of(&world));
    let wal = open(memory, &folder)?;
    let found = numbers(&wal)?;
    runs(&found, 0, crash.last_mark().unwrap_or(0))?;
    let count = found.len() as u64;
    memory.forget_trace();
    memory.mark(count);
    wal.drain().map_err(|error| error.to_string())?;
    if depth > 0 && variant % 8 == 0 {
        let nested = explore(memory, &options(8, 4), |crash| judge(crash, depth - 1));
        nested.failure.map_or(Ok(()), |failure| Err(format!("within recovery: {failure}")))?;
    }
    wal.append(&payload(count), Strict).map_err(|error| error.to_string())?;
    runs(&numbers(&wal)?, 0, count + 1)?;
    drop(wal);
    let wal = open(memory, &folder)?;
    runs(&numbers(&wal)?, 0, count + 1)?;
    // Also if no record is left before it in the ring, no record that a crash left behind the end comes back (W4).
    wal.drain().map_err(|error| error.to_string())?;
    drop(wal);
    let wal = open(memory, &folder)?;
    let found = numbers(&wal)?;
    if found.len() as u64 == count + 1 { Ok(()) } else { Err(format!("W4: {found:?} after {count} and an append")) }
}

/// Runs appends of both kinds, commits and steps of draining, several times around the ring. Returns the memory, which
/// has recorded the run.
fn traffic(model: Model, plan: &[(u64, Durability, u64)], is_deaf: bool) -> Arc<LyingMemory> {
    let world = world_of(new_pool(model));
    let folder = SegmentDisks::of(&world);
    let folder = if is_deaf { folder.deaf() } else { folder };
    let memory = world.memory();
    let wal = create(memory, &folder);
    // Nearly once around, so that the exploration covers the ring's end.
    wal.append_many(&(0..10).map(|_| [0; 600].as_slice()).collect::<Vec<_>>(), Strict).unwrap();
    wal.truncate(wal.standing().end).unwrap();
    memory.forget_trace();
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
    memory.clone()
}

fn power_failures(model: Model, plan: &[(u64, Durability, u64)], is_deaf: bool) -> CrashReport {
    explore(&traffic(model, plan, is_deaf), &options(1 << 9, 40), |crash| judge(crash, 1))
}

fn kills(model: Model, is_deaf: bool) -> CrashReport {
    explore_kills(&traffic(model, &PLAN, is_deaf), &options(1 << 9, 40), |crash| judge(crash, 1))
}

use Durability::{Relaxed, Strict};

const PLAN: [(u64, Durability, u64); 7] =
    [(1, Strict, 0), (2, Relaxed, 1), (3, Strict, 1), (1, Strict, 4), (3, Relaxed, 3), (2, Strict, 1), (1, Relaxed, 5)];

#[test]
fn wd1_wd2_wd4_crash_keeps_what_was_acknowledged_in_the_ring_or_a_file() {
    for model in Model::ALL {
        let report = power_failures(model, &[PLAN; 2].concat(), false);
        println!("wal: {report}");
        report.assert_clean();
    }
}

/// A process that was killed left files that are written and not synced: the next one loses no record of them.
#[test]
fn wd1_wd3_a_drain_of_a_killed_process_is_finished_at_every_crash() {
    for model in Model::ALL {
        let report = kills(model, false);
        println!("wal, killed: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_a_sync_that_does_nothing_is_caught() {
    power_failures(Model::MAPPED, &PLAN, true).expect_failure();
    kills(Model::MAPPED, true).expect_failure();
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
            let _planted = plant(bug);
            std::panic::catch_unwind(|| power_failures(*model, &[PLAN; 2].concat(), false).failure.is_some())
                .unwrap_or(true)
        });
        assert!(caught, "{bug:?} was not noticed");
    }
}

/// An interrupted truncation is completed, or has not begun.
#[test]
fn wd1_crash_in_a_truncation_leaves_all_or_forgets_all_of_it() {
    for model in Model::ALL {
        let world = world_of(new_pool(model));
        let (memory, folder) = (world.memory(), SegmentDisks::of(&world));
        let wal = create(memory, &folder);
        let at: Vec<LogPosition> = (0..30).map(|number| wal.append(&payload(number), Strict).unwrap()).collect();
        wal.drain().unwrap();
        wal.append(&payload(30), Strict).unwrap();
        memory.forget_trace();
        wal.truncate(at[20]).unwrap();
        memory.mark(20);
        wal.truncate(wal.standing().end).unwrap();
        memory.mark(31);
        let report = explore(memory, &options(1 << 9, 60), |crash| {
            let world = crash.world();
            let wal = open(world.memory(), &SegmentDisks::of(&world))?;
            let found = numbers(&wal)?;
            let first = found.first().copied().unwrap_or(31);
            if [0, 20, 31].contains(&first) && first >= crash.last_mark().unwrap_or(0) {
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
