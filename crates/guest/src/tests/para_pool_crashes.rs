//! M1 to M4 of a region's memory: every crash of a pool in a region.
//!
//! ```text
//!   pool: put --- ParaMemory --- ParaRegion: DRAM --- engine --- LyingMemory, LyingDisk: crash
//! ```

use std::sync::Arc;

use ferrite_crash::{
    Crash, CrashReport, ExploreOptions, LyingDisk, LyingMemory, Model, Points, World, explore, options,
};
use ferrite_disk::{Disk, Geometry};
use ferrite_memory::Memory;
use ferrite_memory::planted::plant;
use ferrite_pool::disk_stamp::DISK_STAMP_BYTES;
use ferrite_pool::layout::{CHUNK, POOL_BYTES_MIN};
use ferrite_pool::{Format, Pool, PutOptions};

use super::region_rig::has_regions;
use crate::guest_share::SetBudget;
use crate::{GuestShare, GuestSpec, ParaMemory, ParaRegion};

const BOOT: [u8; 16] = [7; 16];
/// Bytes of the pool in the region.
const SIZE: u64 = POOL_BYTES_MIN;
/// Puts of a value whose crashes are explored.
const PUTS: u8 = 3;

/// A pool with a guest on a disk, which lie. The guest has fewer frames than pages.
fn world() -> World {
    let memory = LyingMemory::new(POOL_BYTES_MIN + 2 * CHUNK, Model::MAPPED);
    Pool::create(&memory, &Format { uuid: [1; 16], boot_id: BOOT }).expect("a new pool");
    memory.barrier().expect("nothing fails yet");
    let geometry = Geometry {
        size: SIZE + DISK_STAMP_BYTES,
        sector_bytes: 512,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: false,
        identity: [0; 16],
    };
    let world = World::new(memory, [LyingDisk::new(geometry)]);
    world.memory().keep_trace(false);
    let spec = GuestSpec {
        name: "g".into(),
        size: SIZE,
        pm_bytes: CHUNK,
        share: GuestShare::fixed(1),
        budget: SetBudget::default(),
        address: "disk".into(),
        identity: [9; 16],
        nonce: 3,
    };
    spec.create(&outer(&world).expect("it opens"), &disk(&world)).expect("created");
    world
}

fn disk(world: &World) -> Arc<dyn Disk> {
    Arc::clone(world.disk(0)) as _
}

/// Opens the pool that has the guest.
fn outer(world: &World) -> Result<Arc<Pool>, String> {
    let memory = Arc::clone(world.memory()) as Arc<dyn Memory>;
    Ok(Arc::new(Pool::open(memory, BOOT).map_err(|error| error.to_string())?.0))
}

/// Opens the memory of the region.
fn region(world: &World) -> Result<Arc<ParaMemory>, String> {
    let region = ParaRegion::open(&outer(world)?, "g", disk(world), || 4).map_err(|error| error.to_string())?;
    Ok(Arc::new(ParaMemory::new(Arc::new(region))))
}

fn value(number: u8) -> Vec<u8> {
    vec![number; 3000 + 5000 * usize::from(number)]
}

/// Checks that the pool in the region opens, and has an acknowledged value or a later one, whole.
fn check_crash(crash: &Crash<'_>) -> Result<(), String> {
    let world = crash.world();
    world.memory().keep_trace(false);
    let (pool, _) = Pool::open(region(&world)?, BOOT).map_err(|error| format!("M1: {error}"))?;
    let mut found = Vec::new();
    pool.get("v", &mut found).map_err(|error| format!("M1: {error}"))?;
    let number = found.first().copied().unwrap_or(u8::MAX);
    let least = crash.last_mark().unwrap_or(0);
    if found == value(number) && u64::from(number) >= least {
        return Ok(());
    }
    Err(format!("M1: {} bytes of value {number}, and {least} was acknowledged", found.len()))
}

/// Puts values into a pool in a region, with the bug `bug`, and explores the crashes.
fn explored(bug: Option<&'static str>) -> CrashReport {
    let world = world();
    let memory = region(&world).expect("it opens");
    Pool::create(&*memory, &Format { uuid: [2; 16], boot_id: BOOT }).expect("a new pool");
    let (pool, _) = Pool::open(memory, BOOT).expect("it opens");
    let put = |number: u8| {
        let lose = number.checked_sub(1).map(|before| value(before).len() as u64);
        pool.put("v", &mut &value(number)[..], &PutOptions { lose, ..PutOptions::default() })
    };
    put(0).expect("it fits");
    world.memory().keep_trace(true);
    world.memory().forget_trace();
    let planted = bug.map(plant);
    for number in 1..=PUTS {
        put(number).expect("it fits");
        world.memory().mark(number.into());
    }
    drop(planted);
    let few = ExploreOptions { points: Points::Widest, ..options(4, 2) };
    explore(world.memory(), &few, check_crash)
}

#[test]
fn m1_every_crash_of_a_pool_in_a_region_keeps_its_values() {
    if !has_regions() {
        return;
    }
    let report = explored(None);
    assert!(report.assert_clean().images > 30, "{report}");
}

#[test]
fn canary_m1_stores_of_a_region_that_are_not_persisted_are_caught() {
    if has_regions() {
        explored(Some("guest: a store to a region's memory is not persisted")).expect_failure();
    }
}
