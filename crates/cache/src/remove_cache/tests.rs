//! Caches are removed, and forgotten, also through crashes at each event.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use ferrite_crash::{CrashReport, LyingDisk, LyingMemory, Model, World, explore, explore_kills};
use ferrite_disk::{Disk, VirtualClock};
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;

use super::{ForgetScope, forget_cache, remove_cache};
use crate::tests::{CacheRig, RigOpener, RigShape, block_of, geometry, kill_options, members_of, open_pool};
use crate::{BLOCK, CacheError, OpenOptions, StampPlace};

static RANDOM: AtomicU16 = AtomicU16::new(1);

fn options(world: &World, shape: &RigShape) -> OpenOptions {
    OpenOptions {
        opener: Arc::new(RigOpener(parking_lot::Mutex::new(members_of(world, shape)))),
        clock: Arc::new(VirtualClock::default()),
        scheme: Scheme::Nt,
        random: || RANDOM.fetch_add(1, Ordering::Relaxed),
    }
}

fn remove(world: &World, shape: &RigShape, lose: Option<u64>) -> Result<(), CacheError> {
    remove_cache(&open_pool(world).unwrap(), "c", &options(world, shape), lose)
}

fn forget(world: &World, shape: &RigShape, scope: ForgetScope) -> Result<Vec<String>, CacheError> {
    forget_cache(&open_pool(world).unwrap(), "c", &options(world, shape), scope)
}

fn write_some(rig: &CacheRig) {
    (0..5).for_each(|block| rig.write(block, 10 + block));
    rig.settle();
}

fn is_zero(disk: &LyingDisk, at: usize) -> bool {
    disk.snapshot()[at..at + 8192].iter().all(|byte| *byte == 0)
}

#[test]
fn removal_names_the_dirty_bytes_and_releases_the_members() {
    let shape = RigShape { stamp: StampPlace::Head, ..RigShape::default() };
    let world = shape.world();
    write_some(&shape.open(&world).unwrap());
    let refused = remove(&world, &shape, Some(7)).unwrap_err().to_string();
    assert!(refused.contains("20480 dirty bytes") && refused.contains("--lose 20480"), "{refused}");
    remove(&world, &shape, Some(5 * BLOCK)).unwrap();
    assert!((0..3).all(|number| is_zero(world.disk(number), 0)), "no stamp is left");
    let pool = open_pool(&world).unwrap();
    assert!(pool.members().unwrap().is_empty() && pool.tags().is_empty());
}

#[test]
fn clean_cache_is_removed_without_a_question() {
    let shape = RigShape::default();
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        write_some(&rig);
        rig.clean();
        assert!(
            matches!(remove_cache(&rig.pool, "c", &options(&world, &shape), None), Err(CacheError::Pool(_))),
            "open"
        );
    }
    remove(&world, &shape, None).unwrap();
}

fn explored(is_kill: bool) -> CrashReport {
    let shape = RigShape { stamp: StampPlace::Head, ..RigShape::default() };
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        write_some(&rig);
        rig.disk.flush().unwrap();
    }
    let pool = open_pool(&world).unwrap();
    world.memory().forget_trace();
    remove_cache(&pool, "c", &options(&world, &shape), Some(5 * BLOCK)).unwrap();
    drop(pool);
    let check = |crash: &ferrite_crash::Crash<'_>| {
        let world = crash.world();
        let pool = open_pool(&world)?;
        if pool.tags().is_empty() {
            let left = pool.members().map_err(|error| error.to_string())?;
            return if left.is_empty() { Ok(()) } else { Err(format!("left behind: {left:?}")) };
        }
        drop(pool);
        if let Ok(rig) = shape.open(&world) {
            // The removal had not begun.
            let is_whole = (0..5).all(|block| rig.read(block).is_ok_and(|read| read == block_of(10 + block)));
            return if is_whole { Ok(()) } else { Err("it opens without its content".into()) };
        }
        remove(&world, &shape, None).map_err(|error| format!("it cannot be removed: {error}"))
    };
    match is_kill {
        true => explore_kills(world.memory(), &kill_options(), check),
        false => explore(world.memory(), &crate::tests::options(), check),
    }
}

#[test]
fn crash_in_a_removal_leaves_a_cache_that_can_be_removed() {
    explored(false).assert_clean();
    explored(true).assert_clean();
}

#[test]
fn canary_removal_that_does_not_ask_is_caught() {
    let shape = RigShape::default();
    let world = shape.world();
    write_some(&shape.open(&world).unwrap());
    let _bug = plant("cache: a removal does not ask for dirty data");
    assert!(remove(&world, &shape, None).is_ok());
}

/// Returns a world with the pool of `then` and the members of `now`.
fn pool_of_another_time(then: &[u8], now: &World, shape: &RigShape) -> World {
    let disk = |number: usize| {
        let bytes = now.disk(number).snapshot();
        LyingDisk::from_image(geometry(bytes.len() as u64), &bytes)
    };
    World::new(LyingMemory::from_image(then, Model::MAPPED), (0..=shape.ssds).map(disk))
}

#[test]
fn ca12_older_copy_of_the_pool_is_refused_until_its_content_is_forgotten() {
    for stamp in [StampPlace::Head, StampPlace::Tail, StampPlace::None] {
        let shape = RigShape { stamp, ..RigShape::default() };
        let world = shape.world();
        write_some(&shape.open(&world).unwrap());
        let then = world.memory().snapshot();
        {
            let rig = shape.open(&world).unwrap();
            (0..5).for_each(|block| rig.write(block, 20 + block));
            rig.clean();
        }
        let old = pool_of_another_time(&then, &world, &shape);
        let refused = shape.open(&old).err().expect("CA12");
        assert!(refused.contains("ferrite cache forget"), "{refused}");
        assert!(matches!(forget(&old, &shape, ForgetScope::Clean), Err(CacheError::Refused(_))));
        assert!(matches!(forget(&old, &shape, ForgetScope::Lose(1)), Err(CacheError::Refused(_))));
        assert_eq!(forget(&old, &shape, ForgetScope::Lose(5 * BLOCK)).unwrap(), [""; 0]);
        let rig = shape.open(&old).unwrap();
        for block in 0..5 {
            assert!(rig.read(block).unwrap() == block_of(20 + block), "{stamp:?}: what the disk has");
        }
        write_some(&rig);
        drop(rig);
        let rig = shape.open(&old).unwrap();
        assert!((0..5).all(|block| rig.read(block).unwrap() == block_of(10 + block)));
        // The members are not the other pool's any more.
        assert!(
            shape.open(&pool_of_another_time(&world.memory().snapshot(), &old, &shape)).is_err()
                || stamp == StampPlace::None
        );
    }
}

/// Returns an error unless the cache serves what the disk has, at the latest after it was forgotten again.
fn judge_forgotten(shape: &RigShape, world: &World) -> Result<(), String> {
    if shape.open(world).is_err() {
        // As many dirty bytes are left as the crash left.
        let again = (0..=5).find_map(|blocks| forget(world, shape, ForgetScope::Lose(blocks * BLOCK)).ok());
        again.ok_or("it cannot be forgotten again")?;
    }
    for when in ["opened", "opened again"] {
        let rig = shape.open(world).map_err(|error| format!("{when}: {error}"))?;
        for block in 0..5 {
            if rig.read(block)? != block_of(20 + block) {
                return Err(format!("{when}: block {block} has a version that was forgotten"));
            }
        }
        let members = rig.pool.members().map_err(|error| error.to_string())?;
        let config = rig.cache.core.config.lock().config.clone();
        if members.len() != shape.ssds + 1 || !config.pending.is_empty() {
            return Err(format!("{when}: the pool lists {members:?}, and {:?} is pending", config.pending));
        }
    }
    Ok(())
}

/// Explores how an older copy of the pool forgets its content.
fn explored_forgetting(is_kill: bool) -> CrashReport {
    let shape = RigShape { stamp: StampPlace::Head, ..RigShape::default() };
    let world = shape.world();
    write_some(&shape.open(&world).unwrap());
    let then = world.memory().snapshot();
    {
        let rig = shape.open(&world).unwrap();
        (0..5).for_each(|block| rig.write(block, 20 + block));
        rig.clean();
    }
    let old = pool_of_another_time(&then, &world, &shape);
    forget(&old, &shape, ForgetScope::Lose(5 * BLOCK)).unwrap();
    match is_kill {
        true => explore_kills(old.memory(), &kill_options(), |crash| judge_forgotten(&shape, &crash.world())),
        false => explore(old.memory(), &crate::tests::options(), |crash| judge_forgotten(&shape, &crash.world())),
    }
}

#[test]
fn ca12_crash_while_an_older_copy_forgets_leaves_what_the_disk_has() {
    explored_forgetting(false).assert_clean();
    explored_forgetting(true).assert_clean();
}

#[test]
fn canary_members_that_are_tied_anew_before_the_content_is_forgotten_are_caught() {
    let _bug = plant("cache: members are tied anew before the content is forgotten");
    explored_forgetting(false).expect_failure();
}

#[test]
fn ca13_disk_that_was_written_without_the_cache_is_refused_until_the_clean_content_is_forgotten() {
    for stamp in [StampPlace::Tail, StampPlace::None, StampPlace::Head] {
        let shape = RigShape { stamp, ..RigShape::default() };
        let world = shape.world();
        {
            let rig = shape.open(&world).unwrap();
            write_some(&rig);
            rig.clean();
        }
        let first = if stamp == StampPlace::Head { crate::STAMP_BYTES } else { 0 };
        world.disk(2).write(first + 3 * BLOCK, &block_of(99), ferrite_disk::Access::Fua).unwrap();
        let refused = shape.open(&world).err().expect("CA13");
        assert!(refused.contains("block 3") && refused.contains("forget --clean"), "{refused}");
        forget(&world, &shape, ForgetScope::Clean).unwrap();
        let rig = shape.open(&world).unwrap();
        assert!(rig.read(3).unwrap() == block_of(99) && rig.read(2).unwrap() == block_of(12));
    }
}

#[test]
fn canary_fingerprint_that_is_not_compared_is_caught() {
    let shape = RigShape::default();
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        write_some(&rig);
        rig.clean();
    }
    world.disk(2).write(3 * BLOCK, &block_of(99), ferrite_disk::Access::Fua).unwrap();
    let _bug = plant("cache: a disk's fingerprint is not compared");
    let rig = shape.open(&world).unwrap();
    assert!(rig.read(3).unwrap() == block_of(13), "CA13 is broken");
}

#[test]
fn forgetting_leaves_devices_alone_that_are_not_the_cache_s() {
    let shape = RigShape { stamp: StampPlace::Head, ..RigShape::default() };
    let world = shape.world();
    world.disk(1).write(0, &[7; 8192], ferrite_disk::Access::Fua).unwrap();
    assert_eq!(forget(&world, &shape, ForgetScope::Clean).unwrap(), ["ssd1"]);
    assert!(world.disk(1).snapshot()[..8192].iter().all(|byte| *byte == 7));
    shape.open(&world).unwrap();
}
