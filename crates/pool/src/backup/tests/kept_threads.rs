//! KR: a restore by several threads.

use ferrite_crash::{CrashReport, LyingDisk, World, explore};
use ferrite_disk::Disk;
use ferrite_memory::planted::plant;

use super::kept::{FROZEN, blank_image, geometry, image_disk, kept, restored_by, restored_kept};
use super::*;
use crate::backup::kept_format::{HEADER_BLOCKS, capacity_bytes};
use crate::backup::kept_reader::KeptReader;
use crate::backup::kept_restore::{RestorePlan, restore_by_threads};
use crate::tests::support::options;

/// The pool has been restored.
const RESTORED: u64 = 1;
const PLAN: RestorePlan = RestorePlan { threads: 3, claimed: 1 };

fn bytes_of(memory: &LyingMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.size() as usize];
    memory.load(0, &mut bytes);
    bytes
}

/// Restores one save by one thread and by three. Returns true if both restores are the same.
fn threads_restore_the_same() -> bool {
    let (pool, _) = mixed();
    let disk = image_disk(&pool);
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    let [alone, beside] = [(); 2].map(|()| blank(pool.superblock().size));
    let summary = restored_kept(&*disk, &alone).unwrap();
    for (name, value) in [("b", 1), ("d", 2)] {
        // What the target held before does not stay (BK4).
        beside.store(pool.tag(name).unwrap().extents[0].span().at, &[value; 64], Scheme::Nt);
    }
    assert_eq!(restored_by(PLAN, &*disk, &beside).unwrap(), summary);
    bytes_of(&alone) == bytes_of(&beside)
}

#[test]
fn kr2_threads_restore_what_one_restores() {
    for _ in 0..8 {
        assert!(threads_restore_the_same());
    }
}

/// KR1, KR3: a damaged page ends the restore, and the target is no pool.
#[test]
fn kr1_a_damaged_page_leaves_an_unfinished_restore() {
    let (pool, _) = mixed();
    let disk = image_disk(&pool);
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    disk.write((HEADER_BLOCKS + 9) * PAGE, &[0xa5; PAGE as usize], ferrite_disk::Access::Cached).unwrap();
    let memory = blank(pool.superblock().size);
    let failed = restored_by(PLAN, &*disk, &memory);
    assert!(matches!(failed, Err(Error::BadImage { .. })), "{failed:?}");
    assert!(Pool::open(memory, BOOT).is_err());
}

/// KR3: the caller stops the restore.
#[test]
fn kr3_a_stopped_restore_is_unfinished() {
    let (pool, _) = mixed();
    let disk = image_disk(&pool);
    kept(&disk).save(&pool, &FROZEN, &mut quiet).unwrap();
    for plan in [PLAN, RestorePlan { threads: 1, ..PLAN }] {
        let memory = blank(pool.superblock().size);
        let reader = KeptReader::open(&*disk).unwrap();
        let stopped = restore_by_threads(&reader, &*memory, RestoreOptions::default(), plan, &mut |_| false);
        assert!(matches!(stopped, Err(Error::Cancelled(_))), "{stopped:?}");
        assert!(matches!(Pool::open(memory, BOOT), Err(Error::Restoring)));
    }
}

/// Explores the power failures of a restore by three threads.
fn power_failures() -> CrashReport {
    let (_, pool) = make(POOL_BYTES_MIN);
    put(&pool, "value", &[b'b'; 3 * PAGE as usize]);
    let disk = LyingDisk::new(geometry(capacity_bytes(POOL_BYTES_MIN)));
    let world = World::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED), [disk]);
    blank_image(&pool, world.disk(0));
    kept(world.disk(0)).save(&pool, &FROZEN, &mut quiet).unwrap();
    world.memory().forget_trace();
    restored_by(PLAN, &**world.disk(0), world.memory()).unwrap();
    world.memory().mark(RESTORED);
    explore(world.memory(), &options(16, 8), |crash| {
        let memory = Arc::new(crash.memory());
        memory.keep_trace(false);
        match Pool::open(memory.clone(), BOOT) {
            Ok((pool, _)) => {
                let mut found = Vec::new();
                pool.get("value", &mut found).map_err(|error| format!("KR2: {error}"))?;
                drop(pool);
                ensure_sound(&memory);
                if found == [b'b'; 3 * PAGE as usize] { Ok(()) } else { Err("KR2: another value".into()) }
            }
            Err(error) if crash.has_mark(RESTORED) => Err(format!("KR2: it does not open: {error}")),
            Err(_) => Ok(()),
        }
    })
}

#[test]
fn kr2_a_power_failure_leaves_the_whole_pool_or_none() {
    power_failures().assert_clean();
}

#[test]
fn canary_a_pool_before_all_threads_have_restored_is_caught() {
    let _bug = plant("restore: a pool from the start");
    power_failures().expect_failure();
}
