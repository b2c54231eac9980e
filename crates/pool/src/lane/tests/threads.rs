//! L2, L4: two threads commit at once, some of it to the same words.

use ferrite_crash::{Points, ThreadJob, interleave};

use super::*;
use crate::tests::support::{rounds, seed};

const SHARED: u64 = ONE;
/// Two words of each thread, far from each other; both change in each of its transactions.
const OWN: [[u64; 2]; 2] = [[ONE + 64, TWO], [ONE + 128, TWO + 64]];

fn add(memory: &dyn Memory, words: &[u64]) -> RecordDraft {
    let mut draft = RecordDraft::default();
    for at in words {
        write(&mut draft, *at, &(memory.load_word(*at) + 1).to_le_bytes());
    }
    draft
}

/// What one thread does: transactions that conflict with the other's, under a lock held as L2 says, and some that do
/// not. Its marks are its number and how many it has committed.
fn work(lanes: &LaneSet, memory: &dyn Memory, marks: &LyingMemory, (thread, lock): (usize, &Mutex<()>)) {
    for step in 1..=6u64 {
        let held = (step % 3 != 0).then(|| lock.lock());
        let own = OWN[thread];
        let words = if held.is_some() { vec![SHARED, own[0], own[1]] } else { own.to_vec() };
        lanes.commit_from(thread, memory, add(memory, &words)).unwrap();
        drop(held);
        marks.mark((thread as u64) << 32 | step);
    }
}

/// Each thread's words agree and hold its last acknowledged value; the shared word counts the transactions that changed
/// it.
fn judge(memory: &dyn Memory, marks: &[u64]) -> CheckVerdict {
    let mut conflicting = 0;
    for (thread, [first, second]) in OWN.into_iter().enumerate() {
        let message = marks.iter().filter(|mark| **mark >> 32 == thread as u64).map(|mark| mark & 0xffff_ffff).max();
        let (first, second, message) = (memory.load_word(first), memory.load_word(second), message.unwrap_or(0));
        if first != second || !(message..=message + 1).contains(&first) {
            return Err(format!("L1: thread {thread} has {first} and {second}, and was told {message}"));
        }
        conflicting += first - first / 3;
    }
    let shared = memory.load_word(SHARED);
    if shared == conflicting { Ok(()) } else { Err(format!("L2: {shared} shared where {conflicting} were committed")) }
}

fn run(seed: u64, model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let memory = formatted(model);
    let deaf = DeafMemory::new(&memory, ignores);
    let lanes = recovered(&*memory);
    if seed.is_multiple_of(2) {
        fill(&lanes, &memory, (LANE - 300) as usize);
    }
    memory.forget_trace();
    let lock = Mutex::new(());
    let job = |thread| {
        let (lanes, deaf, memory, lock) = (&lanes, &*deaf, &*memory, &lock);
        Box::new(move || work(lanes, deaf, memory, (thread, lock))) as ThreadJob<'_>
    };
    interleave(seed, vec![job(0), job(1)]);
    let options = ExploreOptions { seed, points: Points::Sampled(12), ..options(64, 24) };
    explore(&memory, &options, |crash| {
        let memory = crash.memory();
        recovered(&memory);
        judge(&memory, crash.marks())?;
        nested(&memory, |again| {
            let memory = again.memory();
            recovered(&memory);
            judge(&memory, crash.marks())
        })
    })
}

/// Fills lane 0 up to `used` bytes, so that it wraps while the other thread commits.
fn fill(lanes: &LaneSet, memory: &LyingMemory, used: usize) {
    for bytes in [30 << 10, 30 << 10, used - (60 << 10) - 3 * 64] {
        lanes.commit_from(0, memory, bulk(bytes / 8 * 8)).unwrap();
    }
}

#[test]
fn l2_l4_crash_seeded_two_threads_that_commit_at_once() {
    let (first, mut images) = (seed(), 0);
    for seed in first..first + rounds(6) {
        for model in Model::ALL {
            let report = run(seed, model, |_| false);
            report.assert_clean();
            images += report.images;
        }
    }
    println!("two threads: {images} images");
}

#[test]
fn canary_a_thread_that_does_not_fence_is_caught() {
    let unfenced = |call| matches!(call, MemoryCall::Settle(span) if (LANES..LANES + LANE).contains(&span.at));
    let caught = |model| (1..20).any(|seed| run(seed, model, unfenced).failure.is_some());
    assert!(Model::ALL.into_iter().all(caught));
}
