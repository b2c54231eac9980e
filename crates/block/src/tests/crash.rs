//! What a crash may leave of a disk: B1 to B5.

use ferrite_crash::{Crash, Options, Points, Report, explore};

use proptest::strategy::ValueTree;

use super::*;

fn seed() -> u64 {
    std::env::var("FERRITE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Runs `ops` and explores every crash of it. Each block must be as after some operation not older than the last one
/// that was acknowledged as durable; in place, each word.
fn explore_ops(way: Way, ops: &[Op], samples: u64) -> Report {
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
    let options = Options {
        seed: seed(),
        images_per_point_max: samples,
        samples_per_point: samples,
        points: Points::Sampled(40),
        ..Options::default()
    };
    let unit = if way.options.in_place { 8 } else { BLOCK as usize };
    explore(&memory, &options, |crash| judge(crash, way, &after, unit))
}

fn judge(crash: &Crash<'_>, way: Way, after: &[Vec<u8>], unit: usize) -> Result<(), String> {
    let disk = open(Arc::new(crash.memory()), way);
    let found = read_all(&*disk);
    let durable = crash.last_mark().unwrap_or(0) as usize;
    for (i, part) in found.chunks(unit).enumerate() {
        let range = i * unit..(i + 1) * unit;
        if !after[durable..].iter().any(|bytes| bytes[range.clone()] == *part) {
            return Err(format!("byte {} is of no state since operation {durable}", range.start));
        }
    }
    let (used, free) = disk.used_and_free_bytes();
    let tag = disk.tag();
    let data = tag.extents.iter().filter(|it| it.role == ferrite_pool::Role::DATA).map(|it| it.span().len);
    if used + free != data.sum::<u64>() {
        return Err("blocks were lost".into());
    }
    Ok(())
}

/// Overwrites, parts of blocks, trims and flushes, that meet each other.
fn collisions() -> Vec<Op> {
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
fn b1_to_b5_a_crash_leaves_every_block_old_or_new() {
    for way in ways() {
        let report = explore_ops(way, &collisions(), 8);
        report.assert_clean();
        println!("{way:?}: {report:?}");
    }
}

#[test]
fn crash_seeded_random_operations() {
    let rounds: u64 = std::env::var("FERRITE_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(4);
    println!("FERRITE_SEED={}", seed());
    for round in 0..rounds {
        let mut runner = proptest::test_runner::TestRunner::new_with_rng(
            ProptestConfig::default(),
            proptest::test_runner::TestRng::from_seed(
                proptest::test_runner::RngAlgorithm::ChaCha,
                &std::array::from_fn::<u8, 32, _>(|i| ((seed() + round) >> (i % 8 * 8)) as u8),
            ),
        );
        let ops = prop::collection::vec(op(), 8..9).new_tree(&mut runner).expect("ops").current();
        let ways = ways();
        let way = ways[(seed().wrapping_add(round) % ways.len() as u64) as usize];
        println!("{way:?} {ops:?}");
        explore_ops(way, &ops, 6).assert_clean();
    }
}

#[test]
fn canary_a_word_before_its_data_is_caught() {
    for way in ways().into_iter().filter(|way| !way.options.in_place) {
        PLANTED.set(Some(Bug::WordBeforeData));
        let report = explore_ops(way, &collisions(), 40);
        PLANTED.set(None);
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
