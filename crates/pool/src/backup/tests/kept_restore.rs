//! KI6: crashes while a pool is restored from a kept image and named.
//!
//! ```text
//! mark       -      NAMED     SAVED
//! restore beside the name -> name -> open -> save
//! image      save 1, whole              save 1 or 2, whole
//! ```
//!
//! The name is modelled as durable at once, before what a real file system would have written with it.

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingDisk, Points, World, explore, explore_kills};
use ferrite_disk::Disk;
use ferrite_memory::planted::plant;

use super::kept::{FROZEN, blank_image, geometry, kept, restored_kept};
use super::*;
use crate::backup::kept_format::capacity_bytes;
use crate::tests::support::{CheckVerdict, options};

/// The pool has its name.
const NAMED: u64 = 1;
/// The restored pool was saved to the image.
const SAVED: u64 = 2;

/// The value that the image holds, in pages of its own.
const BEFORE: &[u8] = &[b'b'; 3 * PAGE as usize];
/// The value that the restored pool is given.
const AFTER: &[u8] = &[b'a'; 3 * PAGE as usize];

/// A kept image with one save, and a memory that holds nothing.
fn world() -> World {
    let (_, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", BEFORE);
    let disk = LyingDisk::new(geometry(capacity_bytes(POOL_BYTES_MIN)));
    let world = World::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED), [disk]);
    blank_image(&pool, world.disk(0));
    kept(world.disk(0)).save(&pool, &FROZEN, &mut quiet).unwrap();
    world.memory().forget_trace();
    world
}

/// Restores the pool and names it. `named_first` is a bug: the name comes first.
fn restore_and_name(world: &World, named_first: bool) -> Result<()> {
    if named_first {
        world.memory().mark(NAMED);
    }
    restored_kept(world.disk(0), world.memory())?;
    world.memory().mark(NAMED);
    Ok(())
}

/// Changes the pool and saves it, as a process does that found the pool under its name.
fn use_and_save(world: &World) -> Result<()> {
    let pool = Pool::open(Arc::clone(world.memory()) as Arc<dyn Memory>, BOOT)?.0;
    put(&pool, "value", AFTER);
    kept(world.disk(0)).save(&pool, &FROZEN, &mut quiet)?;
    world.memory().mark(SAVED);
    Ok(())
}

fn run(named_first: bool) -> World {
    let world = world();
    restore_and_name(&world, named_first).unwrap();
    use_and_save(&world).unwrap();
    world
}

/// Returns the value in the save of the image, which is restored into a new memory.
fn saved_value(disk: &impl Disk) -> CheckVerdict<Vec<u8>> {
    let memory = blank(POOL_BYTES_MIN);
    restored_kept(disk, &memory).map_err(|error| format!("KI6: the image: {error}"))?;
    Ok(get(&open(&memory), "value"))
}

/// KI6: without a name there is no pool, or the whole one, and the image is as it was. With the name there is the whole pool.
fn is_whole_or_not_there(crash: &Crash<'_>) -> CheckVerdict {
    let world = crash.world();
    world.memory().keep_trace(false);
    let (is_named, is_saved) = (crash.has_mark(NAMED), crash.has_mark(SAVED));
    let saved = saved_value(&**world.disk(0))?;
    if saved != BEFORE && (!is_named || saved != AFTER) || is_saved && saved != AFTER {
        return Err(format!("KI6: the image holds {:?}", saved.first()));
    }
    match Pool::open(Arc::clone(world.memory()) as Arc<dyn Memory>, BOOT) {
        Ok((pool, _)) => {
            let mut found = Vec::new();
            pool.get("value", &mut found).map_err(|error| format!("KI6: a pool without its value: {error}"))?;
            if found != BEFORE && (!is_named || found != AFTER) {
                return Err(format!("KI6: the pool holds {:?}", found.first()));
            }
            drop(pool);
            ensure_sound(world.memory());
            Ok(())
        }
        Err(error) if is_named => Err(format!("KI6: it has its name and does not open: {error}")),
        Err(_) => Ok(()),
    }
}

/// What the next start does: the pool is restored anew unless it has its name, used and saved. Then the power fails.
fn goes_on(crash: &Crash<'_>) -> CheckVerdict {
    is_whole_or_not_there(crash)?;
    let world = match crash.has_mark(NAMED) {
        true => crash.world(),
        false => {
            // The next start removes what was restored in part, and starts over in a new file.
            let world = World::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED), [crash.disk(0)]);
            restore_and_name(&world, false).map_err(|error| format!("restored again: {error}"))?;
            world
        }
    };
    use_and_save(&world).map_err(|error| format!("used again: {error}"))?;
    if saved_value(&**world.crash(crash.last_mark().unwrap_or(0)).disk(0))? == AFTER {
        return Ok(());
    }
    Err("KI6: an acknowledged save is lost".into())
}

fn power_failures(named_first: bool) -> CrashReport {
    explore(run(named_first).memory(), &options(16, 8), is_whole_or_not_there)
}

#[test]
fn ki6_a_power_failure_in_a_restore_leaves_the_whole_pool_or_none() {
    let report = power_failures(false);
    assert!(report.assert_clean().images > 30, "{report}");
}

/// KI6: after a kill at any moment the next start restores and saves.
#[test]
fn ki6_a_kill_in_a_restore_is_followed_by_a_whole_one() {
    let each = ExploreOptions { points: Points::Every, ..options(1, 1) };
    let report = explore_kills(run(false).memory(), &each, goes_on);
    assert!(report.assert_clean().images > 30, "{report}");
}

#[test]
fn canary_a_pool_before_all_of_it_is_restored_is_caught() {
    let _bug = plant("restore: a pool from the start");
    power_failures(false).expect_failure();
}

#[test]
fn canary_a_name_before_the_restore_is_caught() {
    power_failures(true).expect_failure();
}
