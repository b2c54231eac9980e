//! Disks join and leave (CM5).

use std::sync::Arc;

use ferrite_crash::{CrashReport, Model, World, explore, explore_kills};
use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_memory::planted::plant;

use crate::tests::{BLOCKS, CacheRig, RigShape, block_of, kill_options, options};
use crate::{BLOCK, CacheError, NewDisk, StampPlace, read_stamp};

fn second(rig: &CacheRig, stamp: StampPlace) -> (NewDisk, Arc<RamDisk>) {
    let disk = Arc::new(RamDisk::new(2 * crate::STAMP_BYTES));
    rig.members.0.lock().insert("second".into(), disk.clone());
    let new = NewDisk { export: "d".into(), address: "second".into(), disk: disk.clone(), uuid: [0x55; 16], stamp };
    (new, disk)
}

fn write(disk: &dyn Disk, block: u64, version: u64) {
    disk.write(block * BLOCK, &block_of(version), Access::Cached).unwrap();
}

fn read(disk: &dyn Disk, block: u64) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK as usize];
    disk.read(block * BLOCK, &mut bytes).unwrap();
    bytes
}

#[test]
fn cm5_disk_joins_and_leaves_with_its_data() {
    for stamp in [StampPlace::Head, StampPlace::Tail, StampPlace::None] {
        let shape = RigShape::default();
        let world = shape.world();
        let (members, raw) = {
            let rig = shape.open(&world).unwrap();
            let (new, raw) = second(&rig, stamp);
            rig.cache.add_disk(new).unwrap();
            let disk = rig.cache.disk("d").unwrap();
            (0..6).for_each(|block| write(&disk, block, 10 + block));
            rig.settle();
            (0..3).for_each(|block| rig.write(block, 20 + block));
            (rig.members.0.lock().clone(), raw)
        };
        {
            let rig = shape.open_with(&world, members.clone()).unwrap();
            let disk = rig.cache.disk("d").unwrap();
            assert!((0..6).all(|block| read(&disk, block) == block_of(10 + block)), "{stamp:?}");
            assert!(matches!(rig.cache.remove_disk("d"), Err(CacheError::Busy(_))), "a client has it");
            drop(disk);
            let refused = rig.cache.remove_disk("d").unwrap_err().to_string();
            assert!(refused.contains("24576 dirty bytes"), "{refused}");
            rig.clean();
            rig.cache.remove_disk("d").unwrap();
            assert!(matches!(rig.cache.disk("d"), Err(CacheError::NotFound(_))));
            assert!(matches!(rig.cache.remove_disk("c"), Err(CacheError::Refused(_))), "the last one");
            assert!(
                read_stamp(&*raw, if stamp == StampPlace::Head { 0 } else { crate::STAMP_BYTES }).unwrap().is_none()
            );
            assert_eq!(rig.pool.members().unwrap().len(), 3);
            let first = if stamp == StampPlace::Head { 256 } else { 0 };
            assert!((0..6).all(|block| read(&*raw, first + block) == block_of(10 + block)), "{stamp:?}");
        }
        let rig = shape.open_with(&world, members).unwrap();
        assert_eq!(rig.cache.exports(), ["c"]);
        assert!((0..3).all(|block| rig.read(block).unwrap() == block_of(20 + block)));
    }
}

#[test]
fn removed_disk_refuses_a_queue_that_outlived_it() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    let (new, _) = second(&rig, StampPlace::None);
    rig.cache.add_disk(new).unwrap();
    let queue = rig.cache.disk("d").unwrap().queue().unwrap();
    assert!(matches!(rig.cache.remove_disk("d"), Err(CacheError::Busy(_))));
    drop(queue);
    rig.cache.remove_disk("d").unwrap();
}

#[test]
fn canary_disk_that_leaves_pages_behind_is_caught() {
    let shape = RigShape::default();
    let world = shape.world();
    {
        let _bug = plant("cache: a disk leaves with pages in the cache");
        let rig = shape.open(&world).unwrap();
        let (new, _) = second(&rig, StampPlace::None);
        rig.cache.add_disk(new).unwrap();
        write(&rig.cache.disk("d").unwrap(), 0, 1);
        rig.clean();
        rig.cache.remove_disk("d").unwrap();
    }
    let error = shape.open(&world).err().expect("CM5 is broken");
    assert!(error.contains("names a disk"), "{error}");
}

#[test]
fn drop_clean_keeps_dirty_pages() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    (0..6).for_each(|block| rig.write(block, 10 + block));
    rig.settle();
    rig.clean();
    (3..5).for_each(|block| rig.write(block, 20 + block));
    assert_eq!(rig.cache.drop_clean().unwrap(), 4 * BLOCK);
    assert_eq!(rig.cache.drop_clean().unwrap(), 0);
    rig.settle();
    assert_eq!(rig.cache.dirty_bytes(), 2 * BLOCK);
    for block in 0..BLOCKS {
        let version = if (3..5).contains(&block) {
            20 + block
        } else if block < 6 {
            10 + block
        } else {
            0
        };
        assert!(rig.read(block).unwrap() == block_of(version), "block {block}");
    }
}

/// A shape with a spare device that has room for a stamp.
fn roomy(model: Model) -> RigShape {
    let spare_bytes = crate::STAMP_BYTES + 8 * BLOCK;
    RigShape { model, ssds: 1, spares: 1, spare_bytes, ..RigShape::default() }
}

/// Returns the spare device of `world`, as a disk that joins.
fn spare(world: &World) -> NewDisk {
    let disk = Arc::clone(world.disk(2)) as Arc<dyn Disk>;
    NewDisk { export: "d".into(), address: "ssd1".into(), disk, uuid: [0x55; 16], stamp: StampPlace::Head }
}

/// Returns an error unless both disks have their content, and the pool lists exactly the members of the cache.
fn judge(shape: &RigShape, world: &World) -> Result<(), String> {
    for when in ["opened", "opened again"] {
        let failed = |error: String| format!("{when}: {error}");
        let rig = shape.open(world).map_err(failed)?;
        if !(0..3).all(|block| rig.read(block).is_ok_and(|read| read == block_of(20 + block))) {
            return Err(failed("the first disk has other content".into()));
        }
        let config = rig.cache.core.config.lock().config.clone();
        let members = rig.pool.members().map_err(|error| failed(error.to_string()))?;
        if members.len() != config.ssds.len() + config.disks.len() || !config.pending.is_empty() {
            return Err(failed(format!("the pool lists {members:?}, and {:?} is pending", config.pending)));
        }
        if rig.cache.exports().len() == 1 {
            rig.cache.add_disk(spare(world)).map_err(|error| failed(format!("joining again: {error}")))?;
        }
        let disk = rig.cache.disk("d").map_err(|error| failed(error.to_string()))?;
        if !(0..3).all(|block| read(&disk, block) == block_of(10 + block)) {
            return Err(failed("the second disk has other content".into()));
        }
    }
    Ok(())
}

fn explored(model: Model, is_kill: bool, leaves: bool) -> CrashReport {
    let shape = roomy(model);
    let world = shape.world();
    (0..3).for_each(|block| write(&**world.disk(2), crate::STAMP_BYTES / BLOCK + block, 10 + block));
    world.disk(2).flush().unwrap();
    let rig = shape.open(&world).unwrap();
    if leaves {
        rig.cache.add_disk(spare(&world)).unwrap();
        let disk = rig.cache.disk("d").unwrap();
        (0..3).for_each(|block| write(&disk, block, 10 + block));
    }
    (0..3).for_each(|block| rig.write(block, 20 + block));
    rig.settle();
    rig.clean();
    world.memory().forget_trace();
    match leaves {
        true => rig.cache.remove_disk("d").unwrap(),
        false => _ = rig.cache.add_disk(spare(&world)),
    }
    drop(rig);
    match is_kill {
        true => explore_kills(world.memory(), &kill_options(), |crash| judge(&shape, &crash.world())),
        false => explore(world.memory(), &options(), |crash| judge(&shape, &crash.world())),
    }
}

#[test]
fn mp1_crash_while_a_disk_joins_leaves_the_cache_with_or_without_it() {
    for model in [Model::MAPPED, Model::FILE] {
        explored(model, false, false).assert_clean();
    }
    explored(Model::MAPPED, true, false).assert_clean();
}

#[test]
fn mp2_crash_while_a_disk_leaves_loses_nothing() {
    for model in [Model::MAPPED, Model::FILE] {
        explored(model, false, true).assert_clean();
    }
    explored(Model::MAPPED, true, true).assert_clean();
}

#[test]
fn canary_configuration_names_a_disk_before_its_stamp_is_caught() {
    let _bug = plant("cache: the configuration names a disk before its stamp");
    explored(Model::MAPPED, false, false).expect_failure();
}

#[test]
fn canary_disk_that_leaves_is_released_before_it_is_pending_is_caught() {
    let _bug = plant("cache: a disk that leaves is released before it is pending");
    explored(Model::MAPPED, false, true).expect_failure();
}

/// Bytes behind the last whole block would be out of reach, so a disk that keeps its data in place may have none.
#[test]
fn disk_without_a_stamp_that_ends_within_a_block_is_refused() {
    let rig = RigShape::default();
    let world = rig.world();
    let rig = rig.open(&world).unwrap();
    let (new, _) = second(&rig, StampPlace::None);
    let odd = NewDisk { disk: Arc::new(RamDisk::new((1 << 20) + 1536)), ..new };
    let refused = rig.cache.add_disk(odd).unwrap_err().to_string();
    assert!(refused.contains("its last 1536 would not be served"), "{refused}");
}
