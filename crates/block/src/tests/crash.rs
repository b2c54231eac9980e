//! The states that a crash may leave of a disk: B1 to B7.

use ferrite_crash::{Crash, CrashReport, ExploreOptions, Points, explore, rounds, seed};
use ferrite_memory::Error;

use proptest::strategy::ValueTree;

use super::*;

/// Runs `ops` and explores every crash of it. Each block must be as after some operation not older than the last one
/// that was acknowledged as durable; in place, each word.
fn explore_ops(way: Way, ops: &[Op], samples: u64) -> CrashReport {
    let memory = fresh(way);
    let disk = open(memory.clone(), way);
    memory.forget_trace();
    let mut bytes = vec![0; (BLOCKS * BLOCK) as usize];
    let mut after = vec![bytes.clone()];
    let settles = !disk.geometry().volatile_cache;
    for (i, op) in ops.iter().enumerate() {
        op.run(&*disk);
        op.apply(&mut bytes);
        after.push(bytes.clone());
        if settles || matches!(op, Op::Flush) {
            memory.mark(i as u64 + 1);
        }
    }
    let options = ExploreOptions {
        seed: seed(),
        images_per_point_max: samples,
        samples_per_point: samples,
        points: Points::Sampled(40),
        ..ExploreOptions::default()
    };
    let run = Run { way, ops, after, settles };
    explore(&memory, &options, |crash| run.judge(crash))
}

/// The operations of a run, and the disk's content after each.
struct Run<'run> {
    way: Way,
    ops: &'run [Op],
    after: Vec<Vec<u8>>,
    settles: bool,
}

impl Run<'_> {
    fn judge(&self, crash: &Crash<'_>) -> Result<(), String> {
        let disk = open(Arc::new(crash.memory()), self.way);
        let durable = crash.last_mark().unwrap_or(0) as usize;
        for index in 0..BLOCKS {
            let mut found = vec![0; BLOCK as usize];
            match disk.read(index * BLOCK, &mut found) {
                Ok(()) => self.judge_block(index, &found, durable)?,
                Err(Error::Damaged(at)) if at == index * BLOCK => self.judge_damaged(index, durable)?,
                Err(error) => return Err(error.to_string()),
            }
        }
        all_accounted_for(&disk)
    }

    /// In place each word is of some state; with a checksum, and else, the whole block is.
    fn judge_block(&self, index: u64, found: &[u8], durable: usize) -> Result<(), String> {
        let unit = if self.way.options.in_place && !self.way.checksum { 8 } else { BLOCK as usize };
        for (i, part) in found.chunks(unit).enumerate() {
            let start = (index * BLOCK) as usize + i * unit;
            if !self.after[durable..].iter().any(|bytes| bytes[start..start + unit] == *part) {
                return Err(format!("byte {start} is of no state since operation {durable}"));
            }
        }
        Ok(())
    }

    /// B7: only in place, and only what was being changed.
    fn judge_damaged(&self, index: u64, durable: usize) -> Result<(), String> {
        let running = if self.settles { durable + 1 } else { self.ops.len() };
        let was_changed = self.ops[durable..running.min(self.ops.len())].iter().any(|op| op.touches(index));
        if self.way.options.in_place && self.way.checksum && was_changed {
            return Ok(());
        }
        Err(format!("block {index} is damaged, and nobody was changing it since operation {durable}"))
    }
}

fn all_accounted_for(disk: &BlockDisk) -> Result<(), String> {
    let (used, free) = disk.used_and_free_bytes();
    let tag = disk.tag();
    let data = tag.extents.iter().filter(|it| it.role == ferrite_pool::Role::DATA).map(|it| it.span().len);
    if used + free != data.sum::<u64>() {
        return Err("blocks were lost".into());
    }
    Ok(())
}

/// Overwrites, parts of blocks, trims and flushes, that meet each other.
pub(crate) fn collisions() -> Vec<Op> {
    vec![
        Op::Write { sector: 0, sectors: 8, seed: 1 },
        Op::Write { sector: 0, sectors: 24, seed: 2 },
        Op::Flush,
        Op::Write { sector: 4, sectors: 8, seed: 3 },
        Op::Write { sector: 0, sectors: 8, seed: 4 },
        Op::Write { sector: 0, sectors: 8, seed: 5 },
        Op::Flush,
        Op::Trim { sector: 8, sectors: 8 },
        Op::Zero { sector: 2, sectors: 3, keep_space: false },
        Op::Write { sector: 8, sectors: 16, seed: 6 },
        Op::Flush,
        Op::Write { sector: 9, sectors: 1, seed: 7 },
    ]
}

#[test]
fn b1_to_b7_a_crash_leaves_every_block_old_or_new_or_damaged_where_it_may() {
    for way in ways() {
        let report = explore_ops(way, &collisions(), 8);
        report.assert_clean();
        println!("{way:?}: {report:?}");
    }
}

#[test]
fn crash_seeded_random_operations() {
    let seed = seed();
    for round in 0..rounds(4) {
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            ProptestConfig::default(),
            proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha,
                &std::array::from_fn::<u8, 32, _>(|i| ((seed + round) >> (i % 8 * 8)) as u8),
            ),
        );
        let ops = prop::collection::vec(op(), 8..9).new_tree(&mut runner).expect("ops").current();
        let ways = ways();
        let way = ways[(seed.wrapping_add(round) % ways.len() as u64) as usize];
        println!("{way:?} {ops:?}");
        explore_ops(way, &ops, 6).assert_clean();
    }
}

#[test]
fn canary_a_word_before_its_data_is_caught() {
    for way in ways().into_iter().filter(|way| !way.options.in_place && !way.options.verify) {
        let bug = plant("block: word before data");
        let report = explore_ops(way, &collisions(), 40);
        drop(bug);
        report.expect_failure();
    }
}

#[test]
fn canary_a_reader_that_does_not_compare_is_caught() {
    let torn = |way: &Way| way.options.in_place && way.checksum;
    for way in ways().into_iter().filter(torn) {
        let bug = plant("block: reader compares no checksums");
        let report = explore_ops(way, &collisions(), 40);
        drop(bug);
        report.expect_failure();
    }
}

#[test]
fn every_failed_call_leaves_what_was_acknowledged() {
    let way = Way { model: Model::FILE, ..ways()[0] };
    let calls = |memory: &LyingMemory| memory.calls();
    let run = |fail: Option<u64>| {
        let memory = fresh(way);
        let disk = open(memory.clone(), way);
        if let Some(nth) = fail {
            memory.fail_nth(calls(&memory) + nth);
        }
        let mut acknowledged = 0;
        for round in 1..=6_u8 {
            let written = disk.write(0, &content(16, round), Access::Fua);
            if written.is_err() {
                break;
            }
            acknowledged = round;
        }
        (memory, acknowledged)
    };
    let (memory, all) = run(None);
    assert_eq!(all, 6);
    for nth in 0..calls(&memory) {
        let (memory, acknowledged) = run(Some(nth));
        let found = read_all(&*open(Arc::new(memory.crash(nth)), way));
        for (block, part) in found[..8192].chunks(4096).enumerate() {
            let is_of = |round: u8| *part == content(16, round)[block * 4096..][..4096];
            let fits = (acknowledged..=acknowledged + 1).any(|round| round > 0 && is_of(round));
            assert!(fits || (acknowledged == 0 && part.iter().all(|byte| *byte == 0)), "failed call {nth}");
        }
    }
}
