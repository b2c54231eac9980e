//! Proofs of S1 to S3, and every way a superblock can be bad.

use std::sync::Arc;

use ferrite_crash::{Crash, CrashReport, LyingMemory, Model, explore};

use super::*;
use crate::tests::support::{CheckVerdict, DeafMemory, MemoryCall, nested, options};

const SIZE: u64 = POOL_BYTES_MIN + 1000;

fn sample() -> Superblock {
    let size = POOL_BYTES_MIN;
    Superblock {
        version: 1,
        generation: 0,
        uuid: [3; 16],
        size,
        state: PoolState::Clean,
        boot_id: [4; 16],
        image: [0; 16],
        trusted: 5,
    }
}

/// A memory with change 1, which is generations 1 and 2.
fn written(model: Model) -> (Arc<LyingMemory>, Superblock) {
    let (memory, mut superblock) = (Arc::new(LyingMemory::new(SIZE, model)), sample());
    change(&mut superblock, &*memory, 1);
    memory.mark(1);
    memory.forget_trace();
    (memory, superblock)
}

/// Change `number` of the superblock; its boot id identifies it.
fn change(superblock: &mut Superblock, memory: &dyn Memory, number: u8) {
    superblock.boot_id = [number; 16];
    superblock.advance(memory).unwrap();
}

/// The change that is in `memory`, which must be the one that was acknowledged last, or the next.
fn found(memory: &dyn Memory, acknowledged: u64, what: &str) -> CheckVerdict<Superblock> {
    let found = Superblock::read(memory).map_err(|error| format!("{what}: {error}"))?;
    match u64::from(found.boot_id[0]) {
        change if (acknowledged..=acknowledged + 1).contains(&change) => Ok(found),
        change => Err(format!("{what}: change {change} where {acknowledged} was acknowledged")),
    }
}

/// The change acknowledged last is there, or the one that was being written, also where either slot is damaged
/// besides; and the next advance keeps that so.
fn check(crash: &Crash<'_>) -> CheckVerdict {
    let (memory, acknowledged) = (crash.memory(), crash.last_mark().unwrap_or(1));
    let mut current = found(&memory, acknowledged, "S1")?;
    for at in SUPERBLOCKS {
        let damaged = crash.memory();
        damaged.store_word(at + 40, !damaged.load_word(at + 40));
        // Torn and damaged: no slot is left to read.
        let is_torn = SUPERBLOCKS.iter().any(|slot| Superblock::read_slot(&memory, *slot).is_err());
        if !is_torn {
            found(&damaged, acknowledged, "S4")?;
        }
    }
    if crash.place().variant % 32 != 0 {
        return Ok(());
    }
    let before = current.boot_id[0].into();
    current.advance(&memory).map_err(|error| error.to_string())?;
    nested(&memory, |crash| found(&crash.memory(), before, "S1").map(|_| ()))
}

fn advances(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let (memory, mut superblock) = written(model);
    let deaf = DeafMemory::new(&memory, ignores);
    for number in 2..5 {
        change(&mut superblock, &*deaf, number);
        memory.mark(number.into());
    }
    explore(&memory, &options(1 << 14, 200), check)
}

#[test]
fn s1_crash_leaves_the_old_or_the_new_generation() {
    for model in Model::ALL {
        let report = advances(model, |_| false);
        println!("superblock: {report}");
        report.assert_clean().assert_exhaustive();
    }
}

#[test]
fn canary_an_advance_that_does_not_drain_is_caught() {
    for model in Model::ALL {
        advances(model, |call| matches!(call, MemoryCall::Settle(_))).expect_failure();
    }
}

/// A process is killed before its advance is durable; its successor advances and power fails.
fn kill_then_advance(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let (memory, superblock) = written(model);
    let killed = Superblock { generation: 3, ..superblock };
    // Cached: the store of a killed process that no fence of its own follows.
    memory.store(killed.slot(), &killed.encode(), Scheme::Writeback);
    let _successor = memory.as_thread(1);
    let mut found = Superblock::read(&*memory).unwrap();
    assert_eq!(found.generation, 3);
    memory.forget_trace();
    found.advance(&*DeafMemory::new(&memory, ignores)).unwrap();
    memory.mark(5);
    explore(&memory, &options(1 << 14, 300), |crash| match Superblock::read(&crash.memory()) {
        Ok(found) if found.generation >= crash.last_mark().unwrap_or(0) => Ok(()),
        other => Err(format!("S3: {other:?}")),
    })
}

#[test]
fn s3_crash_after_a_kill_takes_only_one_slot() {
    for model in Model::ALL {
        let report = kill_then_advance(model, |_| false);
        println!("superblock after a kill: {report}");
        report.assert_clean();
    }
}

#[test]
fn canary_an_advance_over_a_twin_that_is_only_visible_is_caught() {
    for model in Model::ALL {
        let first = |call| match call {
            MemoryCall::Flush(_) => true,
            MemoryCall::Settle(span) => span.len == 0,
            MemoryCall::Release(_) => false,
        };
        kill_then_advance(model, first).expect_failure();
    }
}

/// S4: damage of either slot of a superblock at rest changes nothing of what it says.
#[test]
fn s4_either_slot_tells_what_was_acknowledged() {
    let (memory, mut superblock) = written(Model::MAPPED);
    for number in 2..6 {
        change(&mut superblock, &*memory, number);
        for at in SUPERBLOCKS {
            let damaged = memory.kill();
            damaged.store_word(at + 40, !damaged.load_word(at + 40));
            let found = Superblock::read(&damaged).unwrap();
            assert_eq!(Superblock { generation: superblock.generation, ..found }, superblock);
        }
    }
}

/// After a failed persist it is as it was, and tried again it writes the same slot, not the good one.
#[test]
fn s1_a_failed_advance_changes_nothing() {
    let (memory, mut superblock) = written(Model::FILE);
    let before = superblock.clone();
    memory.fail_nth(memory.calls() + 1);
    superblock.advance(&*memory).unwrap_err();
    assert_eq!(superblock, before);
    explore(&memory, &options(1 << 14, 200), check).assert_clean();
}

fn slot(change: impl FnOnce(&mut SuperblockMedia)) -> Vec<u8> {
    let bytes = Superblock { generation: 2, ..sample() }.encode();
    let mut media = SuperblockMedia::read_from_bytes(&bytes).unwrap();
    change(&mut media);
    media.crc = media.checksum().into();
    media.as_bytes().to_vec()
}

/// What reading says of a memory with these two slots.
fn reading(slots: [&[u8]; 2]) -> String {
    let memory = LyingMemory::new(SIZE, Model::MAPPED);
    SUPERBLOCKS.iter().zip(slots).for_each(|(at, bytes)| memory.store(*at, bytes, Scheme::Nt));
    let before = memory.snapshot();
    let reading = Superblock::read(&memory).map_or_else(|error| error.to_string(), |found| format!("{found:?}"));
    assert!(memory.snapshot() == before, "reading wrote");
    reading
}

#[test]
fn s2_what_is_not_a_superblock_is_told_with_its_place_and_what_to_do() {
    let good = slot(|_| {});
    let old = Superblock { generation: 1, ..sample() }.encode();
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    let newer = slot(|media| media.version = 3.into());
    let corrupt = |what: &str, at: &str| {
        format!("{what} at byte {at} of the pool is corrupt: run `ferrite pool check`, or restore a backup")
    };
    let nobodys = slot(|media| media.version = 0.into());
    let unknown = |version: u32| {
        format!("the pool has format version {version}, this program knows versions 1 to 2: use a newer ferrite")
    };
    let none = "not a Ferrite pool: the magic number is missing; `ferrite pool create` makes one, `ferrite pool restore` restores one from an image";
    let cases: [([&[u8]; 2], String); 11] = [
        ([&[], &[]], none.into()),
        ([&[0x53, 0xef], &[0xff; 88]], none.into()),
        ([&flipped, &[]], corrupt("the superblock", "0x0")),
        ([&[], &flipped], corrupt("the superblock", "0x1000")),
        ([&newer, &newer], unknown(3)),
        ([&good, &newer], unknown(3)),
        ([&flipped, &newer], unknown(3)),
        ([&nobodys, &nobodys], unknown(0)),
        ([&old, &[]], corrupt("the superblock's generation", "0x0")),
        ([&slot(|media| media.state = 9.into()), &[]], corrupt("the superblock's state", "0x0")),
        ([&slot(|media| media.size = 5.into()), &[]], corrupt("the superblock's size", "0x0")),
    ];
    for (slots, expected) in cases {
        assert_eq!(reading(slots), expected);
    }
    assert!(reading([&slot(|media| media.generation = u64::MAX.into()), &[]]).contains("generation"));
    assert!(reading([&slot(|media| media.size = u64::MAX.into()), &[]]).contains("it was truncated; restore a backup"));
    assert!(reading([&good, &flipped]).contains("generation: 2"), "S1: the good slot of the two is used");
}

#[test]
fn a_slot_is_as_documented() {
    use crate::tests::format_page::{rows, table};
    let expected =
        rows!(SuperblockMedia { magic, version, crc, generation, uuid, size, state, trusted, boot_id, image });
    assert_eq!(table("### Superblock slot"), expected);
}
