//! Proofs of Z1 to Z3.

use ferrite_crash::{Crash, ExploreOptions, LyingMemory, Model, Points, explore};
use ferrite_memory::{Scheme, Span};

use super::*;
use crate::check::{CheckFinding, Severity, TagOwners, check};
use crate::layout::{CHUNK_PAGES, PAGE, POOL_BYTES_MIN, REGION_CHUNKS, bitmap_at, kind_at};
use crate::tests::support::{BOOT, CheckVerdict, DeafMemory, MemoryCall, account, format};
use crate::{ChunkUse, NewTag, PutOptions, Role, SpaceNeed, Tag, TagKind, Zone};

const VALUE: &[u8] = b"what the pool held before";

/// A memory of `bytes` with a closed pool in its first `pool_bytes`, and something else behind that.
fn short(pool_bytes: u64, bytes: u64, model: Model) -> Arc<LyingMemory> {
    let small = Arc::new(LyingMemory::new(pool_bytes, model));
    small.keep_trace(false);
    Pool::create(&*small, &format()).unwrap();
    let pool = open(&small);
    pool.put("value", &mut &*VALUE, &PutOptions::default()).unwrap();
    pool.close().unwrap();
    extended(&small, bytes)
}

/// `small` as the start of a memory of `bytes`; chunks that it had no room for held something else, and so did the
/// places of their tables.
fn extended(small: &LyingMemory, bytes: u64) -> Arc<LyingMemory> {
    let image = small.snapshot();
    let large = LyingMemory::new(bytes, small.model());
    for (number, page) in image.chunks(4096).enumerate().filter(|(_, page)| page.iter().any(|byte| *byte != 0)) {
        large.store(number as u64 * 4096, page, Scheme::Nt);
    }
    for chunk in image.len() as u64 / CHUNK..bytes / CHUNK {
        large.store(kind_at(chunk), &[0xEE], Scheme::Nt);
        large.store(bitmap_at(chunk), &[0xDD; CHUNK_PAGES as usize / 8], Scheme::Nt);
    }
    large.fence();
    large.barrier().unwrap();
    large.forget_trace();
    Arc::new(large)
}

fn shared(memory: &Arc<LyingMemory>) -> Arc<dyn Memory> {
    memory.clone()
}

fn open(memory: &Arc<LyingMemory>) -> Pool {
    Pool::open(shared(memory), BOOT).unwrap().0
}

fn get(pool: &Pool) -> Vec<u8> {
    let mut found = Vec::new();
    pool.get("value", &mut found).unwrap();
    found
}

/// The pool has `bytes`, holds what it held, and a check finds nothing; all of it can be used.
fn judge(memory: &Arc<LyingMemory>, bytes: u64) -> CheckVerdict {
    let report = check(&shared(memory), &TagOwners::default(), &mut |_| ());
    // A crash within the writing of a superblock spoils the slot that was written.
    let is_wrong = |it: &CheckFinding| it.severity != Severity::Note && it.at.is_none_or(|at| at > PAGE);
    if !report.opened || report.findings.iter().any(is_wrong) || report.usage.total_bytes != bytes {
        return Err(format!("Z1: {} bytes, {:?}", report.usage.total_bytes, report.findings));
    }
    let pool = Pool::open(shared(memory), BOOT).map_err(|error| error.to_string())?.0;
    if get(&pool) != VALUE {
        return Err("Z2: the value has changed".into());
    }
    take_all(&pool).map_err(|error| error.to_string())?;
    account(&pool)
}

/// A tag of every free chunk there is.
fn take_all(pool: &Pool) -> Result<Arc<Tag>> {
    let free = pool.space().kinds().iter().filter(|kind| **kind == ChunkUse::Free).count() as u64;
    let need = SpaceNeed { role: Role::DATA, zone: Zone::Super, bytes: free * CHUNK };
    let new = NewTag { name: "rest", kind: TagKind(99), size: 0, attributes: [0; 64], needs: &[need] };
    pool.create_tag(&new, |_| Ok(()))
}

#[test]
fn a_pool_takes_what_its_memory_has_become_larger_by() {
    for model in Model::ALL {
        let (before_bytes, after_bytes) = (POOL_BYTES_MIN + CHUNK, POOL_BYTES_MIN + 5 * CHUNK);
        let memory = short(before_bytes + 77, after_bytes + CHUNK - 1, model);
        assert_eq!(grow(&shared(&memory), BOOT).unwrap(), Grown { before_bytes, after_bytes });
        assert_eq!(Superblock::read(&*memory).unwrap().state, PoolState::Clean);
        judge(&memory, after_bytes).unwrap();
    }
}

/// Z3: nothing new, nothing written; an unfinished restore, a foreign or a cut-off memory is refused.
#[test]
fn z3_where_there_is_nothing_to_do_nothing_is_touched() {
    let memory = short(POOL_BYTES_MIN, POOL_BYTES_MIN + CHUNK - 1, Model::MAPPED);
    let before = memory.snapshot();
    let grown = grow(&shared(&memory), BOOT).unwrap();
    assert_eq!(grown, Grown { before_bytes: POOL_BYTES_MIN, after_bytes: POOL_BYTES_MIN });
    assert!(memory.snapshot() == before);

    let cut = Arc::new(LyingMemory::from_image(&before[..POOL_BYTES_MIN as usize - 1], Model::MAPPED));
    assert!(matches!(grow(&shared(&cut), BOOT), Err(Error::NotAPool(_))));
    let long = short(POOL_BYTES_MIN + 2 * CHUNK, POOL_BYTES_MIN + 2 * CHUNK, Model::MAPPED).snapshot();
    let cut = Arc::new(LyingMemory::from_image(&long[..(POOL_BYTES_MIN + CHUNK) as usize], Model::MAPPED));
    assert!(matches!(grow(&shared(&cut), BOOT), Err(Error::Truncated { .. })));
    assert!(cut.snapshot() == long[..cut.size() as usize]);

    let memory = short(POOL_BYTES_MIN, POOL_BYTES_MIN + CHUNK, Model::MAPPED);
    let mut superblock = Superblock::read(&*memory).unwrap();
    superblock.state = PoolState::Restoring;
    superblock.advance(&*memory).unwrap();
    let before = memory.snapshot();
    assert!(matches!(grow(&shared(&memory), BOOT), Err(Error::Restoring)));
    assert!(memory.snapshot() == before);
}

/// Z3: a pool with a damaged tag grows when that is repaired, not before.
#[test]
fn z3_a_damaged_pool_is_not_touched() {
    let memory = short(POOL_BYTES_MIN, POOL_BYTES_MIN + CHUNK, Model::MAPPED);
    let slot = open(&memory).table().tags["value"].slot;
    crate::tag_table::copies(slot).into_iter().for_each(|at| memory.store(at + 20, &[0xFF], Scheme::Nt));
    let before = memory.snapshot();
    assert!(matches!(grow(&shared(&memory), BOOT), Err(Error::Corrupt { .. })));
    assert!(memory.snapshot() == before);
}

/// A pool that was killed with transactions to replay.
#[test]
fn a_pool_that_was_not_closed_is_recovered_first() {
    let small = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    Pool::create(&*small, &format()).unwrap();
    small.barrier().unwrap();
    open(&small).put("value", &mut &*VALUE, &PutOptions::default()).unwrap();
    for seed in 0..20 {
        let left = small.crash(seed);
        assert_eq!(Superblock::read(&left).unwrap().state, PoolState::Open);
        let memory = extended(&left, POOL_BYTES_MIN + 3 * CHUNK);
        grow(&shared(&memory), BOOT).unwrap();
        assert_eq!(Superblock::read(&*memory).unwrap().state, PoolState::Clean);
        judge(&memory, POOL_BYTES_MIN + 3 * CHUNK).unwrap();
    }
}

/// The old size or the new one, and the same call then finishes it.
fn finishes(crash: &Crash<'_>, sizes: [u64; 2]) -> CheckVerdict {
    let memory = Arc::new(crash.memory());
    memory.keep_trace(false);
    let found = Superblock::read(&*memory).map_err(|error| error.to_string())?.size;
    if !sizes.contains(&found) || crash.has_mark(1) && found != sizes[1] {
        return Err(format!("Z1: {found} bytes"));
    }
    let kept = Arc::new(memory.kill());
    kept.keep_trace(false);
    judge(&kept, found)?;
    grow(&shared(&memory), BOOT).map_err(|error| error.to_string())?;
    judge(&memory, sizes[1])
}

fn options(samples: u64) -> ExploreOptions {
    ExploreOptions {
        points: Points::Widest,
        images_per_point_max: 64,
        samples_per_point: samples,
        ..ExploreOptions::default()
    }
}

#[test]
fn z1_a_crash_leaves_the_old_size_or_the_new() {
    let sizes = [POOL_BYTES_MIN, POOL_BYTES_MIN + 3 * CHUNK];
    for model in Model::ALL {
        let memory = short(sizes[0], sizes[1] + 9, model);
        grow(&shared(&memory), BOOT).unwrap();
        memory.mark(1);
        let report = explore(&memory, &options(40), |crash| finishes(crash, sizes));
        println!("grow: {report}");
        assert!(report.assert_clean().images > 30, "{report}");
    }
}

#[test]
fn canary_a_size_before_its_tables_is_caught() {
    let sizes = [POOL_BYTES_MIN, POOL_BYTES_MIN + 3 * CHUNK];
    let memory = short(sizes[0], sizes[1], Model::MAPPED);
    // Neither the lines of the new kinds nor the settling behind them and before the superblock.
    let tables = kind_at(0)..CHUNK * 2;
    let deaf = DeafMemory::new(
        &memory,
        move |call| matches!(call, MemoryCall::Flush(span) | MemoryCall::Settle(span) if tables.contains(&span.at)),
    );
    grow(&(deaf as Arc<dyn Memory>), BOOT).unwrap();
    let report = explore(&memory, &options(200), |crash| finishes(crash, sizes));
    report.expect_failure();
}

/// Each call that can fail fails once: an error, the old size or the new, and the same call then finishes it.
#[test]
fn every_failed_call_leaves_the_old_size_or_the_new() {
    let sizes = [POOL_BYTES_MIN, POOL_BYTES_MIN + 3 * CHUNK];
    for model in Model::ALL {
        let run = |fail: Option<u64>| {
            let memory = short(sizes[0], sizes[1], model);
            let first = memory.calls();
            fail.inspect(|call| memory.fail_nth(first + call));
            assert_eq!(grow(&shared(&memory), BOOT).is_err(), fail.is_some(), "call {fail:?}");
            let after = Arc::new(memory.kill());
            let found = Superblock::read(&*after).unwrap().size;
            assert!(sizes.contains(&found));
            judge(&Arc::new(after.kill()), found).unwrap();
            grow(&shared(&after), BOOT).unwrap();
            judge(&after, sizes[1]).unwrap();
            memory.calls() - first
        };
        let calls = run(None);
        assert!(calls >= 1, "{calls}");
        for call in 0..calls {
            run(Some(call));
        }
    }
}

/// The first chunk of a region holds its tables: growing over its boundary makes them.
#[test]
fn a_pool_grows_over_the_boundary_of_a_region() {
    let boundary = REGION_CHUNKS * CHUNK;
    let sizes = [POOL_BYTES_MIN, boundary + 2 * CHUNK];
    let small = Arc::new(LyingMemory::new(sizes[0], Model::MAPPED));
    Pool::create(&*small, &format()).unwrap();
    let pool = open(&small);
    pool.put("value", &mut &*VALUE, &PutOptions::default()).unwrap();
    pool.close().unwrap();
    let memory = Arc::new(LyingMemory::new(sizes[1] + 1, Model::MAPPED));
    memory.store(0, &small.snapshot(), Scheme::Nt);
    // As above, where it matters: the chunks around the boundary, and the table itself.
    for chunk in REGION_CHUNKS - 1..REGION_CHUNKS + 2 {
        memory.store(kind_at(chunk), &[0xEE], Scheme::Nt);
        memory.store(bitmap_at(chunk), &[0xDD; 64], Scheme::Nt);
    }
    memory.barrier().unwrap();
    memory.forget_trace();
    assert_eq!(grow(&shared(&memory), BOOT).unwrap(), Grown { before_bytes: sizes[0], after_bytes: sizes[1] });
    memory.mark(1);
    let usage = open(&memory).usage();
    assert_eq!((usage.total_bytes, usage.meta_bytes), (sizes[1], 3 * CHUNK));
    let few =
        ExploreOptions { points: Points::Sampled(3), samples_per_point: 2, images_per_point_max: 2, ..options(0) };
    let report = explore(&memory, &few, |crash| {
        let memory = Arc::new(crash.memory());
        memory.keep_trace(false);
        let grown = grow(&shared(&memory), BOOT).map_err(|error| error.to_string())?;
        let found = open(&memory).usage();
        if sizes.contains(&grown.before_bytes) && found == usage { Ok(()) } else { Err(format!("Z1: {found:?}")) }
    });
    report.assert_clean();
    let tag = take_all(&open(&memory)).unwrap();
    let places: Vec<Span> = tag.extents.iter().map(|extent| extent.span()).collect();
    assert!(places.iter().all(|span| span.at + span.len <= boundary || span.at >= boundary + CHUNK), "{places:?}");
    assert!(places.iter().any(|span| span.at == boundary + CHUNK), "{places:?}");
}
