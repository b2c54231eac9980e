//! Proofs of L1 to L8 and Y1, Y2.

mod damage;
mod threads;

use std::sync::Arc;

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingMemory, Model, explore};
use ferrite_memory::Memory;

use super::lane_content::committed;
use super::*;
use crate::layout::CHUNK;
use crate::tests::support::{CheckVerdict, DeafMemory, MemoryCall, nested, options};

const SALT: u32 = 0x5eed;
const SIZE: u64 = 4 * CHUNK;
/// Two words in lines of their own that every transaction changes together, and a word of bits.
const ONE: u64 = 2 * CHUNK;
const TWO: u64 = ONE + 4096;
const BITS: u64 = ONE + 8192;

fn write(draft: &mut RecordDraft, at: u64, bytes: &[u8]) {
    draft.push(&(at | 1 << 56).to_le_bytes());
    draft.push(&(bytes.len() as u64).to_le_bytes());
    draft.push(bytes);
}

/// Sets both words to `value` and the bit `value` of the word of bits.
fn both(value: u64) -> RecordDraft {
    let mut draft = RecordDraft::default();
    write(&mut draft, ONE, &value.to_le_bytes());
    draft.push(&(BITS | 2 << 56).to_le_bytes());
    draft.push(&(1u64 << value).to_le_bytes());
    write(&mut draft, TWO, &value.to_le_bytes());
    draft
}

/// Fills most of a lane: a single write elsewhere.
fn bulk(bytes: usize) -> RecordDraft {
    let mut draft = RecordDraft::default();
    write(&mut draft, 3 * CHUNK, &vec![7; bytes]);
    draft
}

fn formatted(model: Model) -> Arc<LyingMemory> {
    let memory = LyingMemory::new(SIZE, model);
    LaneSet::format(&memory, SALT);
    memory.barrier().unwrap();
    memory.forget_trace();
    Arc::new(memory)
}

fn recovered(memory: &dyn Memory) -> LaneSet {
    let redo = Redo::read(memory, SALT).unwrap();
    assert!(redo.lost().is_empty(), "L7: a crash is taken for damage: {:?}", redo.lost());
    redo.preview(memory).unwrap();
    LaneSet::recover(memory, SALT, &redo).unwrap()
}

/// After recovery both words agree, the bits are the bits of all values up to it, and nothing acknowledged is lost.
fn judge(memory: &LyingMemory, acknowledged: u64, begun: u64) -> CheckVerdict<u64> {
    let (one, two, bits) = (memory.load_word(ONE), memory.load_word(TWO), memory.load_word(BITS));
    let expected_bits = (1..=one).fold(0, |bits, value| bits | 1 << value);
    if one != two || bits != expected_bits {
        return Err(format!("L1: half a transaction: {one} {two} {bits:b}"));
    }
    if one < acknowledged || one > begun {
        return Err(format!("L1: {one} where {acknowledged} was acknowledged and {begun} begun"));
    }
    Ok(one)
}

fn check(crash: &Crash<'_>) -> CheckVerdict {
    let memory = crash.memory();
    let acknowledged = crash.last_mark().unwrap_or(0);
    recovered(&memory);
    let value = judge(&memory, acknowledged, acknowledged + 1)?;
    if crash.place().variant % 64 != 0 {
        return Ok(());
    }
    nested(&memory, |again| {
        let memory = again.memory();
        recovered(&memory);
        judge(&memory, value, value).map(|_| ())
    })
}

/// Commits `values`, marking each; `lane` says where.
fn commit_all(lanes: &LaneSet, memory: &dyn Memory, marks: &LyingMemory, values: &[(u64, usize)]) {
    for (value, lane) in values {
        let _thread = marks.as_thread(*lane as u32);
        lanes.commit_from(*lane, memory, both(*value)).unwrap();
        marks.mark(*value);
    }
}

fn exhaustive() -> ExploreOptions {
    options(1 << 16, 400)
}

fn print(what: &str, report: &CrashReport) {
    println!("{what}: {report}");
}

/// Three transactions, then the retired word, then another and the word again: in one lane and over three.
fn commits(
    model: Model,
    lanes_used: [usize; 4],
    ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static,
) -> CrashReport {
    commits_on(model, lanes_used, |memory| DeafMemory::new(memory, ignores))
}

/// The same, on what `deafen` makes of the memory.
fn commits_on(
    model: Model,
    lanes_used: [usize; 4],
    deafen: impl FnOnce(&Arc<LyingMemory>) -> Arc<DeafMemory>,
) -> CrashReport {
    let memory = formatted(model);
    let deaf = deafen(&memory);
    let lanes = recovered(&*memory);
    memory.forget_trace();
    let values = [1, 2, 3, 4].map(|value| (value, lanes_used[value as usize - 1]));
    commit_all(&lanes, &*deaf, &memory, &values[..3]);
    lanes.retire(&*deaf).unwrap();
    commit_all(&lanes, &*deaf, &memory, &values[3..]);
    lanes.retire(&*deaf).unwrap();
    explore(&memory, &exhaustive(), check)
}

#[test]
fn l1_l2_l5_crash_leaves_every_transaction_whole_or_absent() {
    for model in Model::ALL {
        for lanes in [[0; 4], [0, 1, 2, 1]] {
            let report = commits(model, lanes, |_| false);
            print("transactions", &report);
            report.assert_clean();
        }
    }
}

#[test]
fn canary_a_commit_without_its_fence_is_caught() {
    let in_lanes = |call| matches!(call, MemoryCall::Settle(span) if (LANES..CHUNK).contains(&span.at));
    for model in Model::ALL {
        commits(model, [0; 4], in_lanes).expect_failure();
    }
}

/// Where a fence is durable it settles the whole record, whatever span is asked for.
#[test]
fn canary_a_commit_that_drains_another_span_than_its_records_is_caught() {
    let mistaken: [fn(Span) -> Span; 4] = [
        |it| Span::new(it.at, it.len / 2),
        |it| Span::new(it.at + it.len / 2, it.len - it.len / 2),
        |it| Span::new(it.at - 4096, it.len),
        |it| Span::new(it.at + LANE, it.len),
    ];
    for (number, mistakes) in mistaken.into_iter().enumerate() {
        let report = commits_on(Model::FILE, [0; 4], |memory| DeafMemory::mistaking(memory, mistakes));
        assert!(report.failure.is_some(), "mistake {number}: {report}");
    }
}

#[test]
fn canary_a_retired_word_that_moves_before_home_is_durable_is_caught() {
    let home = |call| matches!(call, MemoryCall::Flush(span) if span.at >= 2 * CHUNK);
    commits(Model::MAPPED, [0; 4], home).expect_failure();
    let settle = |call| matches!(call, MemoryCall::Settle(span) if span.at >= 2 * CHUNK);
    commits(Model::FILE, [0; 4], settle).expect_failure();
}

/// L8: a commit flushes no home write; before the retired word moves each line of them is.
#[test]
fn l8_home_writes_are_flushed_when_they_are_retired() {
    let memory = formatted(Model::MAPPED);
    let lanes = recovered(&*memory);
    let flushed = Arc::new(Mutex::new(std::collections::BTreeSet::new()));
    let heard = Arc::clone(&flushed);
    let listening = DeafMemory::new(&memory, move |call| {
        if let MemoryCall::Flush(span) = call
            && span.at >= 2 * CHUNK
        {
            heard.lock().insert((span.at, span.len));
        }
        false
    });
    for value in [1_u64, 3] {
        for value in [value, value + 1] {
            let mut draft = RecordDraft::default();
            write(&mut draft, ONE, &value.to_le_bytes());
            lanes.commit_from(0, &*listening, draft).unwrap();
        }
        lanes.commit_from(1, &*listening, bulk(128)).unwrap();
        assert!(flushed.lock().is_empty());
        lanes.retire(&*listening).unwrap();
        let found: Vec<_> = std::mem::take(&mut *flushed.lock()).into_iter().collect();
        assert_eq!(found, [(ONE, 64), (3 * CHUNK, 128)]);
    }
}

/// Two values, the newer one in lane 0, and lane 0 full, so that a further transaction must wrap it.
fn full(lanes: &LaneSet, memory: &LyingMemory) {
    commit_all(lanes, memory, memory, &[(1, 1), (2, 0)]);
    while lanes.lanes[0].writer.lock().used < LANE {
        let used = lanes.lanes[0].writer.lock().used;
        let left = (LANE - used) as usize - HEADER - 16;
        lanes.commit_from(0, memory, bulk(left.min(30 << 10))).unwrap();
    }
}

/// Lane 0 wraps, and so retires what lane 1 holds; lane 1 goes on behind retired records.
fn wrap(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = formatted(model);
    let deaf = DeafMemory::new(&memory, ignores);
    let lanes = recovered(&*memory);
    full(&lanes, &memory);
    memory.forget_trace();
    commit_all(&lanes, &*deaf, &memory, &[(3, 0), (4, 1), (5, 0)]);
    assert!(lanes.retired.load(Ordering::SeqCst) > 4, "lane 0 did not wrap");
    explore(&memory, &exhaustive(), check)
}

#[test]
fn l3_l4_crash_around_a_wrap_keeps_what_other_lanes_committed() {
    for model in Model::ALL {
        let report = wrap(model, |_| false);
        print("wrap", &report);
        report.assert_clean();
    }
}

#[test]
fn canary_a_lane_overwritten_before_the_retired_word_is_durable_is_caught() {
    for model in Model::ALL {
        let retired =
            |call| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if RETIRED.contains(&span.at));
        wrap(model, retired).expect_failure();
    }
}

/// L1: the retired word passes records that stand before a newer one in its lane.
#[test]
fn l1_a_record_behind_retired_ones_is_found() {
    let sealed = |sequence| both(sequence).seal(SALT, sequence);
    let lane: Vec<u8> = [3, 5, 9].into_iter().flat_map(sealed).collect();
    let found: Vec<u64> = committed(&lane, SALT, 6).records.iter().map(|record| record.sequence).collect();
    assert_eq!(found, [9]);
}

/// L1: what an earlier turn left behind the newest record is older, and ends the lane.
#[test]
fn l1_an_older_record_behind_a_newer_one_ends_the_lane() {
    let sealed = |sequence| both(sequence).seal(SALT, sequence);
    let lane: Vec<u8> = [8, 4, 5].into_iter().flat_map(sealed).collect();
    let found = committed(&lane, SALT, 7);
    assert_eq!((found.records.len(), found.holes), (1, vec![]));
}

/// A killed process leaves a record, home writes or the retired word visible and not durable; power fails while its
/// successor recovers, and a third recovers again. `value` is what the second one must have seen.
fn kill_then_crash(
    model: Model,
    ignores: impl Fn(MemoryCall) -> bool + Send + Sync + Copy + 'static,
) -> Vec<CrashReport> {
    let run = |retiring: bool| {
        let memory = formatted(model);
        let lanes = recovered(&*memory);
        commit_all(&lanes, &*memory, &memory, &[(1, 1), (2, 0)]);
        let _dead = memory.as_thread(77);
        if retiring {
            let unheard =
                |call| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if RETIRED.contains(&span.at));
            lanes.retire(&*DeafMemory::new(&memory, unheard)).unwrap();
        } else {
            let used = lanes.lanes[0].writer.lock().used;
            memory.store(LANES + used, &both(3).seal(SALT, 3), Scheme::Nt);
            // Where the fence is durable this is one: the kernel that ends a thread drains its processor's buffers.
            memory.fence();
        }
        memory.forget_trace();
        let successor = memory.as_thread(5);
        let deaf = DeafMemory::new(&memory, ignores);
        let lanes = recovered(&*deaf);
        let value = memory.load_word(ONE);
        lanes.commit_from(0, &*deaf, both(value + 1)).unwrap();
        memory.mark(value + 1);
        drop(successor);
        explore(&memory, &exhaustive(), |crash| {
            let memory = crash.memory();
            recovered(&memory);
            judge(&memory, crash.last_mark().unwrap_or(2), value + 1).map(|_| ())
        })
    };
    vec![run(false), run(true)]
}

#[test]
fn y2_crash_within_the_recovery_of_a_killed_process_tears_nothing() {
    for model in Model::ALL {
        for report in kill_then_crash(model, |_| false) {
            print("recovery after a kill", &report);
            report.assert_clean();
        }
    }
}

#[test]
fn canary_recovery_that_does_not_drain_what_it_believes_is_caught() {
    let believed = |call| match call {
        MemoryCall::Flush(span) => (LANES..CHUNK).contains(&span.at),
        MemoryCall::Settle(span) => span.at == 0,
        MemoryCall::Release(_) => false,
    };
    for model in Model::ALL {
        assert!(kill_then_crash(model, believed).iter().any(|report| report.failure.is_some()), "{model:?}");
    }
}
