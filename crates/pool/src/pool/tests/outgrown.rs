//! T7: what no record has room for.

use std::collections::BTreeSet;

use ferrite_crash::{CrashReport, LyingMemory, Model, explore};

use super::*;
use crate::check::TagOwners;
use crate::defrag::defrag;
use crate::layout::LANES;
use crate::tag_value::PutOptions;
use crate::tests::support::{BOOT, DeafMemory, MemoryCall, account, format, open, options, reopen};

/// Extents of the tag: each costs 16 bytes to be freed.
const EXTENTS: usize = 2760;
/// Pages that are left for lists of extents.
const LISTS: u64 = 30;
/// Of a change.
const PIECES: usize = 230;

fn kept(pool: &Pool, name: &str, keep: &[Extent], add: &[SpaceNeed]) -> Arc<Tag> {
    let tag = pool.tag(name).unwrap();
    pool.change_tag(&tag, &TagChange { size: 1, attributes: [3; 64], add, keep }, |_| Ok(())).unwrap()
}

/// A pool of which every second page is free, `EXTENTS` in all.
fn scattered(model: Model) -> (Arc<LyingMemory>, Pool) {
    let memory = Arc::new(LyingMemory::new(15 * CHUNK, model));
    Pool::create(&*memory, &format()).unwrap();
    let pool = open(&memory);
    let mut gaps = create(&pool, "gaps", &[]).unwrap();
    for _ in 0..2 * EXTENTS / PIECES {
        gaps = kept(&pool, "gaps", &gaps.extents, &vec![need(Zone::Normal, PAGE); PIECES]);
    }
    create(&pool, "rest", &[need(Zone::Normal, pool.usage().free_bytes - LISTS * PAGE)]).unwrap();
    let pages = gaps.extents.clone();
    for done in (2 * PIECES..=2 * EXTENTS).step_by(2 * PIECES) {
        let keep: Vec<Extent> = pages[..done].iter().step_by(2).chain(&pages[done..]).copied().collect();
        kept(&pool, "gaps", &keep, &[]);
    }
    (memory, pool)
}

/// As [`scattered`], with nearly all that is free in one tag.
fn with_a_wide_tag(model: Model) -> (Arc<LyingMemory>, Pool) {
    let (memory, pool) = scattered(model);
    let mut wide = create(&pool, "wide", &[]).unwrap();
    while wide.extents.len() + 2 * PIECES < EXTENTS {
        wide = kept(&pool, "wide", &wide.extents, &[need(Zone::Normal, PIECES as u64 * PAGE)]);
    }
    (memory, pool)
}

/// How a tag stands: gone, as it was, or an empty value with some of its first extents.
fn is_one_of_the_parts(pool: &Pool, whole: &Tag) -> bool {
    let Ok(tag) = pool.tag(&whole.name) else { return true };
    let is_empty = (tag.kind, tag.size, tag.attributes) == (TagKind::BYTES, 0, [0; 64]);
    *tag == *whole || (is_empty && tag.extents.len() < whole.extents.len() && whole.extents.starts_with(&tag.extents))
}

/// Every crash of the removal of such a tag by a pool that does not make the calls that `ignores` picks.
fn explore_removal(model: Model, ignores: impl Fn(MemoryCall) -> bool + Send + Sync + 'static) -> CrashReport {
    let (memory, pool) = with_a_wide_tag(model);
    let wide = pool.tag("wide").unwrap();
    pool.retire().unwrap();
    drop(pool);
    let pool = Pool::open(DeafMemory::new(&memory, ignores), BOOT).unwrap().0;
    memory.forget_trace();
    remove(&pool, "wide").unwrap();
    memory.mark(1);
    account(&pool).unwrap();
    let mut seen = BTreeSet::new();
    let report = explore(&memory, &options(1 << 10, 16), |crash| {
        let (memory, pool) = reopen(crash)?;
        let left = pool.tag("wide").map_or(0, |tag| tag.extents.len());
        if !is_one_of_the_parts(&pool, &wide) || (crash.last_mark().is_some() && left > 0) {
            return Err(format!("T7: {left} extents are left"));
        }
        account(&pool)?;
        if left > 0 && seen.insert(left) {
            let read = pool.get("wide", &mut Vec::new());
            if left < wide.extents.len() && !matches!(read, Ok(0)) {
                return Err(format!("T7: {read:?} of an empty value"));
            }
            remove(&pool, "wide").map_err(|error| error.to_string())?;
            account(&pool)?;
            drop(pool);
            account(&open(&memory))?;
        }
        Ok(())
    });
    println!("{model:?}: {report}, {seen:?}");
    if report.failure.is_none() {
        assert!(seen.len() > 1 && seen.contains(&wide.extents.len()), "{seen:?}");
    }
    report
}

#[test]
fn t7_crash_a_tag_of_very_many_extents_is_removed() {
    for model in Model::ALL {
        explore_removal(model, |_| false).assert_clean();
    }
}

#[test]
fn canary_a_part_of_a_removal_without_the_fence_of_its_commit_is_caught() {
    for model in Model::ALL {
        let commit = |call| matches!(call, MemoryCall::Settle(span) if (LANES..CHUNK).contains(&span.at));
        explore_removal(model, commit).expect_failure();
    }
}

#[test]
fn a_value_in_too_many_pieces_is_told_what_helps() {
    let (_memory, mut pool) = scattered(Model::MAPPED);
    let before = (pool.usage(), shot(&pool));
    let bytes = vec![7; EXTENTS / 2 * PAGE as usize];
    let error = pool.put("value", &mut &bytes[..], &PutOptions::default()).unwrap_err();
    assert!(matches!(error, Error::Limit(_)) && error.to_string().contains("`ferrite pool defrag`"), "{error}");
    assert_eq!((pool.usage(), shot(&pool)), before);
    defrag(&mut pool, &TagOwners::default(), &mut |_| true).unwrap();
    pool.put("value", &mut &bytes[..], &PutOptions::default()).unwrap();
}
