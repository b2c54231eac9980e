//! L7: damage in a lane is distinguished from a torn tail.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

/// A memory with `values` committed in the lanes given.
fn committed_in(values: &[(u64, usize)]) -> Arc<LyingMemory> {
    let memory = formatted(Model::MAPPED);
    commit_all(&recovered(&*memory), &*memory, &memory, values);
    memory
}

fn flipped(memory: &LyingMemory, at: u64, bit: u32) -> LyingMemory {
    let (changed, mut byte) = (memory.kill(), [0]);
    changed.load(at, &mut byte);
    changed.store(at, &[byte[0] ^ 1 << bit], Scheme::Nt);
    changed
}

/// What recovery would say, and how many transactions it would replay.
fn recovery_report(memory: &dyn Memory) -> (Vec<String>, u64) {
    let redo = Redo::read(memory, SALT).unwrap();
    (redo.lost().iter().map(ToString::to_string).collect(), redo.replay().transactions)
}

/// Bytes of the record of [`both`] without its padding, and with it.
fn record_bytes() -> (u64, u64) {
    let payload_bytes = both(1).payload_bytes();
    ((HEADER + payload_bytes) as u64, footprint(payload_bytes) as u64)
}

/// Any flipped bit of a record that others follow is reported with its lane, sequence and place; in the last record of
/// a lane it is a torn tail. Records that verify are recovered in either case.
#[test]
fn l7_a_flipped_bit_before_a_committed_record_is_told() {
    let memory = committed_in(&[(1, 2), (2, 2), (3, 5), (4, 2)]);
    let (bytes, footprint) = record_bytes();
    let lane = LANES + 2 * LANE;
    for (index, sequence, next) in [(0, 1, 2), (1, 2, 4), (2, 4, 0)] {
        let at = lane + index * footprint;
        for (offset, bit) in (0..bytes).flat_map(|offset| (0..8).map(move |bit| (offset, bit))) {
            let (lost, found) = recovery_report(&flipped(&memory, at + offset, bit));
            assert_eq!(found, 3, "byte {offset} bit {bit} of {sequence}");
            if next == 0 {
                assert_eq!(lost, [""; 0], "byte {offset} bit {bit} of the last record");
                continue;
            }
            let what = format!("transaction {sequence} in lane 2, before committed transaction {next},");
            let expected =
                format!("{what} at byte {at:#x} of the pool is corrupt: run `ferrite pool check`, or restore a backup");
            assert_eq!(lost, [expected], "byte {offset} bit {bit}");
        }
    }
}

/// A damaged record that was retired is no loss: its sequence is below the word, or all above it are there.
#[test]
fn l7_a_damaged_record_that_was_retired_is_no_loss() {
    let memory = formatted(Model::MAPPED);
    let lanes = recovered(&*memory);
    commit_all(&lanes, &*memory, &memory, &[(1, 0), (2, 0)]);
    lanes.retire(&*memory).unwrap();
    commit_all(&lanes, &*memory, &memory, &[(3, 1), (4, 0)]);
    let damaged = flipped(&memory, LANES + record_bytes().1 + 20, 3);
    assert_eq!(recovery_report(&damaged), (vec![], 2));
    judge(&damaged, 4, 4).unwrap();
}

/// It is unknown which of several sequences a damaged record had: the error names the range.
#[test]
fn l7_several_damaged_records_are_told_as_one_place() {
    let memory = committed_in(&[(1, 0), (2, 0), (3, 0), (4, 0)]);
    let footprint = record_bytes().1;
    memory.store(LANES, &vec![0xEE; 2 * footprint as usize], Scheme::Nt);
    let (lost, found) = recovery_report(&*memory);
    assert_eq!((lost.len(), found), (1, 2));
    assert!(lost[0].starts_with("a transaction between 0 and 3 in lane 0, before"), "{lost:?}");
}

/// Memory that had a bad block cleared has zeros there: a lane that begins with them was written to all the same.
#[test]
fn l7_records_behind_cleared_lines_are_found_and_what_was_cleared_is_told() {
    let footprint = record_bytes().1;
    for cleared in [64, 128, 2 * footprint] {
        let memory = committed_in(&[(1, 1), (2, 1), (3, 1), (4, 1)]);
        memory.store(LANES + LANE, &vec![0; cleared as usize], Scheme::Nt);
        let (lost, found) = recovery_report(&*memory);
        assert_eq!((lost.len() as u64, found), (1, 4 - cleared.div_ceil(footprint)), "{cleared} bytes: {lost:?}");
    }
}

/// A lane in its second turn whose last record is torn in every way: what is left of the first turn behind it is
/// retired, and so no sign of damage.
#[test]
fn l7_a_torn_tail_before_an_earlier_turn_is_normal() {
    let memory = formatted(Model::MAPPED);
    let lanes = recovered(&*memory);
    full(&lanes, &memory);
    commit_all(&lanes, &*memory, &memory, &[(3, 0), (4, 0)]);
    let (bytes, footprint) = record_bytes();
    for word in 0..bytes.div_ceil(8) {
        let torn = memory.kill();
        torn.store_word(LANES + footprint + word * 8, !torn.load_word(LANES + footprint + word * 8));
        assert_eq!(recovery_report(&torn), (vec![], 1), "word {word}");
    }
}

/// A record that was not made durable stays the last of its lane: no other follows it, or a crash would look like
/// damage and lose what followed.
#[test]
fn l7_nothing_is_committed_behind_a_record_that_is_not_durable() {
    let memory = formatted(Model::FILE);
    let lanes = recovered(&*memory);
    commit_all(&lanes, &*memory, &memory, &[(1, 0)]);
    memory.fail_nth(memory.calls());
    lanes.commit_from(0, &*memory, both(2)).unwrap_err();
    for lane in [0, 1] {
        assert!(matches!(lanes.commit_from(lane, &*memory, both(3)), Err(Error::Poisoned(_))), "lane {lane}");
    }
    explore(&memory, &exhaustive(), |crash| {
        let memory = crash.memory();
        let (lost, _) = recovery_report(&memory);
        if !lost.is_empty() {
            return Err(format!("L7: {lost:?}"));
        }
        recovered(&memory);
        judge(&memory, crash.last_mark().unwrap_or(0), 2).map(|_| ())
    })
    .assert_clean();
}

/// After a panic during a commit it is unknown whether its record is at home (L4): nothing is retired.
#[test]
fn l4_l7_nothing_is_committed_or_retired_after_a_panic() {
    for settles in [0, 1] {
        let memory = formatted(Model::MAPPED);
        let lanes = recovered(&*memory);
        commit_all(&lanes, &*memory, &memory, &[(1, 0)]);
        let calls = AtomicU64::new(0);
        let panicking = DeafMemory::new(&memory, move |call| match call {
            MemoryCall::Settle(_) if calls.fetch_add(1, Ordering::Relaxed) == settles => panic!("planted"),
            _ => false,
        });
        let commit =
            || lanes.commit_from(0, &*panicking, both(2)).and_then(|_| lanes.commit_from(0, &*panicking, both(3)));
        catch_unwind(AssertUnwindSafe(commit)).unwrap_err();
        for lane in [0, 1] {
            assert!(matches!(lanes.commit_from(lane, &*memory, both(4)), Err(Error::Poisoned(_))), "lane {lane}");
        }
        assert!(matches!(lanes.retire(&*memory), Err(Error::Poisoned(_))));
        let again = memory.kill();
        recovered(&again);
        judge(&again, settles + 1, settles + 2).unwrap();
    }
}
