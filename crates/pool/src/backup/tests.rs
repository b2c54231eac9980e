//! What the tests of backup and restore share, and the plain ones.

mod crash;
mod file;
mod grants;
mod hostile;
mod image_instant;
mod kept;
mod kept_clients;
mod kept_crash;
mod kept_golden;
mod kept_marks;
mod kept_restore;
mod kept_speed;
mod kept_threads;
mod replaced;
mod still;

use std::collections::BTreeMap;
use std::sync::Arc;

use ferrite_crash::{LyingMemory, Model};
use ferrite_memory::{Scheme, Span};
use proptest::prelude::*;

use super::*;
use crate::check::{TagOwners, check};
use crate::layout::POOL_BYTES_MIN;
use crate::{Format, NewTag, PoolState, PutOptions, Role, SpaceNeed, Superblock, TagKind, Zone};

const BOOT: [u8; 16] = [2; 16];
const IMAGE: [u8; 16] = [7; 16];

fn quiet(_: Progress) -> bool {
    true
}

fn blank(size_bytes: u64) -> Arc<LyingMemory> {
    let memory = Arc::new(LyingMemory::new(size_bytes, Model::MAPPED));
    memory.keep_trace(false);
    memory
}

fn make(size_bytes: u64) -> (Arc<LyingMemory>, Pool) {
    let memory = blank(size_bytes);
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let pool = open(&memory);
    (memory, pool)
}

fn open(memory: &Arc<LyingMemory>) -> Pool {
    Pool::open(Arc::clone(memory) as Arc<dyn Memory>, BOOT).unwrap().0
}

fn put(pool: &Pool, name: &str, bytes: &[u8]) {
    pool.put(name, &mut &*bytes, &PutOptions { lose: pool.tag(name).ok().map(|tag| tag.size), size_hint_bytes: None })
        .unwrap();
}

fn get(pool: &Pool, name: &str) -> Vec<u8> {
    let mut out = Vec::new();
    pool.get(name, &mut out).unwrap();
    out
}

/// Every value by name.
fn values(pool: &Pool) -> BTreeMap<String, Vec<u8>> {
    pool.tags().iter().map(|tag| (tag.name.clone(), get(pool, &tag.name))).collect()
}

fn image_of(pool: &Pool) -> Vec<u8> {
    let mut image = Vec::new();
    let summary = backup(pool, &mut image, IMAGE, &mut quiet).unwrap();
    assert_eq!(summary.image_bytes, image.len() as u64);
    assert_eq!(verify(&mut &image[..], &mut quiet).unwrap(), summary);
    image
}

fn restored(image: &[u8], memory: &Arc<LyingMemory>, overwrite: bool) -> Result<ImageSummary> {
    restore(&mut &*image, &**memory, RestoreOptions { overwrite }, &mut quiet)
}

/// The pool in `memory` holds together.
fn ensure_sound(memory: &Arc<LyingMemory>) {
    let memory: Arc<dyn Memory> = memory.clone();
    let report = check(&memory, &TagOwners::default(), &mut |_| ());
    assert!(report.is_sound(), "{:?}", report.findings);
}

/// A pool with one short value, and its image.
fn small() -> (Pool, Vec<u8>) {
    let (_, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", b"some bytes");
    let image = image_of(&pool);
    (pool, image)
}

/// A pool with values in both zones, holes and empty space, and its image.
fn mixed() -> (Pool, Vec<u8>) {
    let (_, pool) = make(POOL_BYTES_MIN * 2);
    for (name, len) in [("a", 0), ("b", 10_000), ("c", 4096), ("d", (2 << 20) + 77), ("e", 12_288)] {
        put(&pool, name, &vec![name.as_bytes()[0]; len]);
    }
    put(&pool, "zeros", &vec![0; 20_000]);
    pool.remove_tag(&pool.tag("c").unwrap()).unwrap();
    let image = image_of(&pool);
    (pool, image)
}

#[test]
fn a_pool_comes_back_as_it_was() {
    let (pool, image) = mixed();
    let memory = blank(POOL_BYTES_MIN * 2);
    restored(&image, &memory, false).unwrap();
    ensure_sound(&memory);
    let (back, recovery) = Pool::open(memory, BOOT).unwrap();
    assert!(recovery.clean && recovery.replay.transactions == 0, "{recovery:?}");
    assert_eq!(back.tags(), pool.tags());
    assert!(values(&back) == values(&pool));
    assert_eq!(back.usage(), pool.usage());
    assert_eq!(back.superblock().uuid, pool.superblock().uuid);
    put(&back, "new", b"it works on");
    assert_eq!(get(&back, "new"), b"it works on");
}

#[test]
fn zeros_and_free_pages_are_left_out() {
    let (pool, image) = mixed();
    let carried = image.len() as u64 / PAGE;
    let content = (2 << 20) / PAGE + 1 + 3 + 3;
    let tables = 7;
    assert!((content..=content + tables).contains(&carried), "{carried} pages for {content} of content");
    let summary = verify(&mut &image[..], &mut quiet).unwrap();
    assert_eq!(summary.used_bytes, pool.usage().total_bytes - pool.usage().free_bytes - 2 * PAGE);
}

/// The pool takes all of a larger target, also across the boundary of a region, and uses it.
#[test]
fn a_larger_target_makes_a_larger_pool() {
    let (pool, image) = mixed();
    let region = crate::layout::REGION_CHUNKS * CHUNK;
    for size in [POOL_BYTES_MIN * 4 + 4096, region + 3 * CHUNK] {
        let memory = blank(size);
        restored(&image, &memory, false).unwrap();
        ensure_sound(&memory);
        let back = open(&memory);
        let usage = back.usage();
        assert_eq!(usage.total_bytes, size / CHUNK * CHUNK);
        assert_eq!(usage.normal_bytes + usage.super_bytes, pool.usage().normal_bytes + pool.usage().super_bytes);
        assert!(values(&back) == values(&pool));
        put(&back, "large", &vec![9; 12 << 20]);
        assert!(get(&open(&Arc::new(memory.kill())), "large") == vec![9; 12 << 20]);
    }
}

#[test]
fn a_smaller_target_is_refused_and_untouched() {
    let (_, image) = mixed();
    let (memory, other) = make(POOL_BYTES_MIN);
    put(&other, "other", b"here first");
    other.close().unwrap();
    let before = memory.snapshot();
    let error = restored(&image, &memory, true).unwrap_err().to_string();
    assert!(error.contains("16 MiB") && error.contains("8 MiB"), "{error}");
    assert!(memory.snapshot() == before);
}

/// BK4: whatever the target held, pages that were zeros in the pool are zeros again.
#[test]
fn bk4_a_dirty_target_does_not_shine_through() {
    let (pool, image) = mixed();
    let memory = blank(POOL_BYTES_MIN * 3);
    memory.store(2 * PAGE, &vec![0xAA; (POOL_BYTES_MIN * 3 - 2 * PAGE) as usize], Scheme::Nt);
    memory.fence();
    restored(&image, &memory, false).unwrap();
    ensure_sound(&memory);
    let back = open(&memory);
    assert!(values(&back) == values(&pool));
    assert_eq!(back.usage().free_bytes, pool.usage().free_bytes + POOL_BYTES_MIN);
    put(&back, "more", &vec![3; 3 << 20]);
}

/// BK4, BK5: the target is the same pool later in its life. None of its records comes back, and no generation either.
#[test]
fn bk4_an_earlier_life_stays_dead() {
    let (memory, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", b"then");
    let image = image_of(&pool);
    (0..50u8).for_each(|round| put(&pool, "value", &[round; 100]));
    let late = pool.tag("value").unwrap().generation;
    drop(pool);
    let killed = Arc::new(memory.kill());
    restored(&image, &killed, true).unwrap();
    let (back, recovery) = Pool::open(Arc::clone(&killed) as Arc<dyn Memory>, BOOT).unwrap();
    assert_eq!(recovery.replay.transactions, 0);
    assert_eq!(get(&back, "value"), b"then");
    put(&back, "value", b"new");
    assert!(back.tag("value").unwrap().generation > late, "T3");
    drop(back);
    assert_eq!(get(&open(&Arc::new(killed.kill())), "value"), b"new");
}

/// Nothing that is there is destroyed unless told; what the same image has begun goes on.
#[test]
fn what_is_there_is_kept_unless_it_may_be_lost() {
    let (pool, image) = small();
    let mut other_image = Vec::new();
    backup(&pool, &mut other_image, [8; 16], &mut quiet).unwrap();
    let (memory, other) = make(POOL_BYTES_MIN);
    put(&other, "other", b"here first");
    drop(other);
    let before = memory.snapshot();
    assert!(matches!(restored(&image, &memory, false), Err(Error::Occupied(_))));
    assert!(memory.snapshot() == before, "refused, so untouched");

    let cut = &image[..image.len() - 1];
    assert!(matches!(restored(cut, &memory, true), Err(Error::BadImage { .. })));
    assert!(matches!(Superblock::read(&*memory).map(|found| found.state), Ok(PoolState::Restoring)));
    assert!(matches!(Pool::open(Arc::clone(&memory) as Arc<dyn Memory>, BOOT), Err(Error::Restoring)));
    let refused = restored(&other_image, &memory, false).unwrap_err().to_string();
    assert!(refused.contains("unfinished restore of another image"), "{refused}");

    restored(&image, &memory, false).unwrap();
    assert_eq!(get(&open(&memory), "value"), b"some bytes");
}

/// A damaged superblock is not taken for an empty place.
#[test]
fn a_damaged_pool_is_overwritten_only_if_told() {
    let (pool, image) = small();
    let (memory, other) = make(POOL_BYTES_MIN);
    drop(other);
    for at in crate::layout::SUPERBLOCKS {
        memory.store(at + 30, &[0xFF], Scheme::Nt);
    }
    memory.fence();
    assert!(matches!(restored(&image, &memory, false), Err(Error::Occupied(_))));
    restored(&image, &memory, true).unwrap();
    assert!(values(&open(&memory)) == values(&pool));
}

/// A file without a pool may still hold a user's data.
#[test]
fn what_is_no_pool_is_overwritten_only_if_told() {
    let (pool, image) = small();
    for at in crate::layout::SUPERBLOCKS {
        let memory = blank(POOL_BYTES_MIN);
        memory.store(at + PAGE - 1, b"x", Scheme::Nt);
        memory.fence();
        let before = memory.snapshot();
        assert!(matches!(restored(&image, &memory, false), Err(Error::Occupied(_))));
        assert!(memory.snapshot() == before, "refused, so untouched");
        restored(&image, &memory, true).unwrap();
        assert!(values(&open(&memory)) == values(&pool));
    }
}

#[test]
fn progress_reaches_its_end() {
    let (pool, _) = mixed();
    let mut seen = Vec::new();
    let summary = backup(&pool, &mut Vec::new(), IMAGE, &mut |progress| {
        seen.push(progress);
        true
    })
    .unwrap();
    assert!(seen.windows(2).all(|pair| pair[0].done < pair[1].done));
    let last = seen.last().unwrap();
    assert!(last.done == last.total && last.total >= summary.used_bytes);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Any tags, of any kind and zone, in any order of making and removing, come back; into a pool of any larger size.
    #[test]
    fn any_pool_comes_back(
        steps in prop::collection::vec((0u8..12, 0u64..400_000, any::<bool>()), 1..16),
        extra in 0u64..(9 << 20),
    ) {
        let (_, pool) = make(POOL_BYTES_MIN * 3);
        for (name, bytes, chunks) in steps {
            let name = format!("tag {name}");
            if let Ok(tag) = pool.tag(&name) {
                pool.remove_tag(&tag).unwrap();
                continue;
            }
            let zone = if chunks { Zone::Super } else { Zone::Normal };
            let needs = [SpaceNeed { role: Role::DATA, zone, bytes }];
            let new = NewTag { name: &name, kind: TagKind(99), size: bytes, attributes: [bytes as u8; 64], needs: &needs };
            let made = pool.create_tag(&new, |extents| {
                for extent in extents {
                    for page in extent.page..extent.end() {
                        pool.memory().zero(Span::new(page * PAGE, PAGE), Scheme::Nt);
                        let lead = [(page * 31 + bytes) as u8; 64];
                        pool.memory().store(page * PAGE + page % 63 * 64, &lead, Scheme::Nt);
                    }
                }
                Ok(pool.memory().drain()?)
            });
            let made_or_full = matches!(made, Ok(_) | Err(Error::Full { .. }));
            prop_assert!(made_or_full);
        }
        let memory = blank(POOL_BYTES_MIN * 3 + extra);
        restored(&image_of(&pool), &memory, false).unwrap();
        ensure_sound(&memory);
        let back = open(&memory);
        prop_assert_eq!(back.tags(), pool.tags());
        for span in pool.tags().iter().flat_map(|tag| &tag.extents).map(|extent| extent.span()) {
            let [mut old, mut new] = [(); 2].map(|()| vec![0; span.len as usize]);
            pool.memory().load(span.at, &mut old);
            back.memory().load(span.at, &mut new);
            prop_assert!(old == new);
        }
    }
}
