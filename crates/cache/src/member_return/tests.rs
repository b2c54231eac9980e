//! Members come back (CA11, CA13).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use ferrite_crash::{CrashReport, Model, World, explore, explore_kills};
use ferrite_disk::{
    Access, Disk, FaultAction, FaultCondition, FaultDisk, FaultError, FaultOp, FaultPlan, Faults, VirtualClock,
};
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;

use parking_lot::Mutex;

use crate::tests::{
    BLOCKS, CacheRig, LEB, RigOpener, RigShape, block_of, kill_options, members_of, open_pool, options,
};
use crate::{BLOCK, Cache, CacheError, CacheSettings, CopyRule, OpenOptions, SsdReturn, SsdState};

const BLOCKS_WRITTEN: u64 = 9;

fn fill(rig: &CacheRig) {
    rig.settle();
    for block in 0..BLOCKS_WRITTEN {
        rig.write(block, 100 + block);
        if block % 3 == 2 {
            rig.settle();
        }
    }
}

fn assert_filled(rig: &CacheRig) {
    for block in 0..BLOCKS {
        let version = if block < BLOCKS_WRITTEN { 100 + block } else { 0 };
        assert!(rig.read(block).unwrap() == block_of(version), "block {block}");
    }
}

fn state(rig: &CacheRig, id: u8) -> SsdState {
    rig.cache.core.ssds.get(id).unwrap().state().0
}

/// Returns the members of `world`; SSD 1 fails as the handle says.
fn with_faults(world: &World, shape: &RigShape) -> (HashMap<String, Arc<dyn Disk>>, Faults) {
    let mut members = members_of(world, shape);
    let faulty = FaultDisk::new(Arc::clone(&members["ssd1"]), FaultPlan::default());
    let faults = faulty.faults().clone();
    members.insert("ssd1".into(), Arc::new(faulty));
    (members, faults)
}

/// Lets SSD 1 fail by a flush that fails.
fn fail(rig: &CacheRig, faults: &Faults) {
    let on_flush = FaultCondition { op: Some(FaultOp::Flush), ..FaultCondition::default() };
    faults.set(FaultPlan::of(FaultAction::Error(FaultError::Io), on_flush));
    for round in 0..4 {
        (12..15).for_each(|block| rig.write(block, round));
        rig.settle();
    }
    (12..15).for_each(|block| rig.write(block, 0));
    rig.settle();
    assert_eq!(state(rig, 1), SsdState::Failed);
    faults.set(FaultPlan::default());
}

/// Writes enough to use each LEB of the SSDs twice, in blocks that are zeros afterwards.
fn use_all_lebs(rig: &CacheRig) {
    rig.settle();
    for round in 0..40 {
        (12..18).for_each(|block| rig.write(block, round + 1));
        rig.settle();
    }
    (12..18).for_each(|block| rig.write(block, 0));
    rig.settle();
}

#[test]
fn ca11_failed_ssd_comes_back_with_its_content() {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    let (members, faults) = with_faults(&world, &shape);
    {
        let rig = shape.open_with(&world, members.clone()).unwrap();
        fill(&rig);
        assert!(matches!(rig.cache.online(1, None), Err(CacheError::Refused(_))), "it is in use");
        fail(&rig, &faults);
        assert_filled(&rig);
    }
    // A restart does not trust it.
    let rig = shape.open_with(&world, members.clone()).unwrap();
    assert_eq!(state(&rig, 1), SsdState::Failed);
    assert_eq!(rig.cache.online(1, None).unwrap(), SsdReturn::WithContent);
    assert_eq!(state(&rig, 1), SsdState::Online);
    assert!(rig.cache.stats(None).ssds[1].free > Some(0), "LEBs that wait to be discarded are free");
    use_all_lebs(&rig);
    assert_filled(&rig);
    assert!(
        rig.cache
            .check(&crate::CacheCheckOptions { read: true, against_disk: true }, &mut |_, _| true)
            .unwrap()
            .expect("it was not ended")
            .is_sound()
    );
    drop(rig);
    let rig = shape.open_with(&world, members).unwrap();
    assert_eq!(state(&rig, 1), SsdState::Online, "the configuration says so");
    assert_filled(&rig);
}

#[test]
fn ca11_ssd_without_its_stamp_comes_back_empty() {
    let base = RigShape { ssds: 2, ..RigShape::default() };
    let shape = RigShape { settings: CacheSettings { copies: CopyRule::One, ..base.settings }, ..base };
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        fill(&rig);
    }
    world.disk(1).write(0, &[0; 8192], Access::Fua).unwrap();
    {
        let rig = shape.open(&world).unwrap();
        assert_eq!(state(&rig, 1), SsdState::Failed);
        assert!((0..BLOCKS_WRITTEN).any(|block| rig.read(block).is_err()), "some were only there");
        let refused = rig.cache.online(1, None).unwrap_err().to_string();
        let bytes: u64 = refused.split("--lose ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
        assert!(bytes > 0 && bytes.is_multiple_of(BLOCK), "{refused}");
        assert!(rig.cache.online(1, Some(bytes + 1)).is_err());
        let before = rig.cache.dirty_bytes();
        assert_eq!(rig.cache.online(1, Some(bytes)).unwrap(), SsdReturn::Empty);
        assert_eq!(rig.cache.dirty_bytes(), before - bytes);
        for block in 0..BLOCKS_WRITTEN {
            let read = rig.read(block).unwrap();
            assert!(read == block_of(100 + block) || read == block_of(0), "the disk's version, or the cache's");
        }
        fill(&rig);
        use_all_lebs(&rig);
        assert_filled(&rig);
    }
    let rig = shape.open(&world).unwrap();
    assert_eq!(state(&rig, 1), SsdState::Online);
    assert_filled(&rig);
}

/// Returns an error unless the cache has its content and is sound, and SSD 1 is used or can be used again.
fn judge(shape: &RigShape, world: &World) -> Result<(), String> {
    for when in ["opened", "opened again"] {
        let failed = |error: String| format!("{when}: {error}");
        let rig = shape.open(world).map_err(failed)?;
        if state(&rig, 1) != SsdState::Online {
            rig.cache.online(1, None).map_err(|error| failed(error.to_string()))?;
        }
        for block in 0..BLOCKS_WRITTEN {
            if rig.read(block).map_err(failed)? != block_of(100 + block) {
                return Err(failed(format!("block {block} has other content")));
            }
        }
        let all = crate::CacheCheckOptions { read: true, against_disk: true };
        let report = rig.cache.check(&all, &mut |_, _| true).map_err(|error| failed(error.to_string()))?;
        let report = report.expect("it was not ended");
        if !report.is_sound() {
            return Err(failed(format!("{report:?}")));
        }
        (12..18).for_each(|block| rig.write(block, 7));
        rig.settle();
    }
    Ok(())
}

/// Explores the return of an SSD, with its content or after it was wiped.
fn explored(model: Model, is_kill: bool, is_wiped: bool) -> CrashReport {
    let shape = RigShape { model, ..RigShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    fill(&rig);
    rig.disk.flush().unwrap();
    // The worker does not step: tables go on naming the SSD.
    rig.cache.core.fail_ssd(&rig.cache.core.ssds.get(1).unwrap(), "a test says so");
    rig.cache.change_ssd(1, |known| known.failed = Some("a test says so".into())).unwrap();
    if is_wiped {
        world.disk(1).write(0, &vec![0; (shape.lebs * LEB) as usize], Access::Fua).unwrap();
    }
    world.memory().forget_trace();
    let content = rig.cache.online(1, None).unwrap();
    assert_eq!(content == SsdReturn::Empty, is_wiped);
    (12..15).for_each(|block| rig.write(block, 7));
    rig.settle();
    drop(rig);
    match is_kill {
        true => explore_kills(world.memory(), &kill_options(), |crash| judge(&shape, &crash.world())),
        false => explore(world.memory(), &options(), |crash| judge(&shape, &crash.world())),
    }
}

#[test]
fn ca11_crash_while_an_ssd_comes_back_with_its_content_loses_nothing() {
    for model in [Model::MAPPED, Model::FILE] {
        explored(model, false, false).assert_clean();
    }
    explored(Model::MAPPED, true, false).assert_clean();
}

#[test]
fn ca11_crash_while_an_ssd_comes_back_empty_loses_nothing() {
    for model in [Model::MAPPED, Model::FILE] {
        explored(model, false, true).assert_clean();
    }
    explored(Model::MAPPED, true, true).assert_clean();
}

#[test]
fn canary_ssd_that_has_its_stamp_before_the_tables_forget_it_is_caught() {
    let _bug = plant("cache: an SSD has its stamp before the tables forget it");
    explored(Model::MAPPED, false, true).expect_failure();
}

#[test]
fn ssd_with_other_data_is_not_overwritten() {
    let shape = RigShape::default();
    let world = shape.world();
    world.disk(1).write(0, &[3; 8192], Access::Fua).unwrap();
    let rig = shape.open(&world).unwrap();
    let refused = rig.cache.online(1, Some(0)).unwrap_err().to_string();
    assert!(refused.contains("other data"), "{refused}");
    assert!(world.disk(1).snapshot()[..8192].iter().all(|byte| *byte == 3));
}

#[test]
fn ca11_ssd_with_an_open_request_does_not_come_back() {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    let (members, faults) = with_faults(&world, &shape);
    let rig = shape.open_with(&world, members).unwrap();
    fill(&rig);
    fail(&rig, &faults);
    let ssd = rig.cache.core.ssds.get(1).unwrap();
    ssd.abandoned.fetch_add(1, SeqCst);
    assert!(matches!(rig.cache.online(1, None), Err(CacheError::Busy(_))));
    {
        let _bug = plant("cache: an SSD comes back while it may still write");
        assert!(rig.cache.online(1, None).is_ok(), "the bug is there");
        fail(&rig, &faults);
    }
    ssd.abandoned.fetch_sub(1, SeqCst);
    assert_eq!(rig.cache.online(1, None).unwrap(), SsdReturn::WithContent);
}

#[test]
fn canary_empty_ssd_that_tables_name_is_caught() {
    let base = RigShape { ssds: 2, ..RigShape::default() };
    let shape = RigShape { settings: CacheSettings { copies: CopyRule::One, ..base.settings }, ..base };
    let world = shape.world();
    fill(&shape.open(&world).unwrap());
    // All of its content is gone, the stamp too.
    world.disk(1).write(0, &vec![0; (shape.lebs * LEB) as usize], Access::Fua).unwrap();
    let rig = shape.open(&world).unwrap();
    let refused = rig.cache.online(1, None).unwrap_err().to_string();
    let bytes: u64 = refused.split("--lose ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let _bug = plant("cache: an SSD comes back empty while tables name it");
    rig.cache.online(1, Some(bytes)).unwrap();
    assert!((0..BLOCKS_WRITTEN).any(|block| rig.read(block).is_err()), "CA11 is broken");
}

#[test]
fn missing_ssd_and_disk_come_back_by_themselves() {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    fill(&shape.open(&world).unwrap());
    let rig = shape.open_without(&world, &["ssd1"]).unwrap();
    assert_eq!(state(&rig, 1), SsdState::Missing);
    assert_filled(&rig);
    rig.members.0.lock().insert("ssd1".into(), Arc::clone(&members_of(&world, &shape)["ssd1"]));
    rig.cache.step().unwrap();
    assert_eq!(state(&rig, 1), SsdState::Missing, "not at each step");
    rig.clock.pass_ns(11_000_000_000);
    rig.cache.step().unwrap();
    assert_eq!(state(&rig, 1), SsdState::Online);
    use_all_lebs(&rig);
    assert_filled(&rig);
    drop(rig);

    let refused = shape.open_without(&world, &["disk"]).err().unwrap();
    assert!(refused.contains("not served: disk is not there"), "{refused}");
}

#[test]
fn ca13_missing_disk_that_changed_meanwhile_is_refused() {
    for changes in [false, true] {
        let shape = RigShape::default();
        let world = shape.world();
        {
            let rig = shape.open(&world).unwrap();
            fill(&rig);
            rig.clean();
        }
        let mut members = members_of(&world, &shape);
        let disk = members.remove("disk").unwrap();
        let opener = Arc::new(RigOpener(Mutex::new(members)));
        let clock = Arc::new(VirtualClock::default());
        let options = OpenOptions { opener: opener.clone(), clock: clock.clone(), scheme: Scheme::Nt, random: || 3 };
        let cache = Cache::open(&open_pool(&world).unwrap(), "c", options).unwrap();
        assert!(cache.disk("c").is_err());
        if changes {
            disk.write(2 * BLOCK, &block_of(99), Access::Fua).unwrap();
        }
        opener.0.lock().insert("disk".into(), disk);
        clock.pass_ns(11_000_000_000);
        cache.step().unwrap();
        match cache.disk("c") {
            Ok(_) => assert!(!changes),
            Err(error) => assert!(changes && error.to_string().contains("block 2"), "{error}"),
        }
    }
}

#[test]
fn shrunk_ssd_has_failed() {
    let shape = RigShape::default();
    let world = shape.world();
    fill(&shape.open(&world).unwrap());
    let mut members = members_of(&world, &shape);
    let small = ferrite_disk::RamDisk::new(15 * LEB);
    let mut bytes = vec![0; 15 * LEB as usize];
    members["ssd1"].read(0, &mut bytes).unwrap();
    small.write(0, &bytes, Access::Fua).unwrap();
    members.insert("ssd1".into(), Arc::new(small));
    let rig = shape.open_with(&world, members).unwrap();
    let (state, why) = rig.cache.core.ssds.get(1).unwrap().state();
    assert!(state == SsdState::Failed && why.contains("its LEBs need"), "{why}");
    assert_filled(&rig);
}

/// Lets the connection of SSD 1 be lost, which the next requests to it find out.
fn disconnect(rig: &CacheRig, faults: &Faults) {
    faults.set(FaultPlan::of(FaultAction::Error(FaultError::Poisoned), FaultCondition::default()));
    rig.members.0.lock().remove("ssd1");
    for _ in 0..4 {
        (0..BLOCKS_WRITTEN).for_each(|block| drop(rig.read(block).unwrap()));
        (12..15).for_each(|block| rig.write(block, 0));
        rig.settle();
    }
    assert_eq!(state(rig, 1), SsdState::Missing);
}

/// A lost SSD that comes back within the grace has all that it held, and nothing was written to the disk because of it
/// except what clients wrote meanwhile.
#[test]
fn ca11_ssd_whose_connection_was_lost_comes_back_by_itself() {
    let shape = RigShape::default();
    let world = shape.world();
    let (members, faults) = with_faults(&world, &shape);
    let rig = shape.open_with(&world, members.clone()).unwrap();
    fill(&rig);
    disconnect(&rig, &faults);
    assert_filled(&rig);
    let disk = world.disk(2).snapshot();
    let is_written = (0..BLOCKS_WRITTEN).any(|block| disk[(block * BLOCK) as usize..][..BLOCK as usize] != block_of(0));
    assert!(!is_written, "within the grace dirty pages stay where they are");
    rig.clock.pass_ns(11_000_000_000);
    rig.settle();
    assert_eq!(state(&rig, 1), SsdState::Missing, "it is not there");
    faults.set(FaultPlan::default());
    rig.members.0.lock().insert("ssd1".into(), Arc::clone(&members["ssd1"]));
    rig.clock.pass_ns(11_000_000_000);
    rig.settle();
    assert_eq!(state(&rig, 1), SsdState::Online);
    assert_filled(&rig);
    use_all_lebs(&rig);
    assert_filled(&rig);
    drop(rig);
    let rig = shape.open_with(&world, members).unwrap();
    assert_eq!(state(&rig, 1), SsdState::Online, "it has not failed");
    assert_filled(&rig);
}

#[test]
fn pages_of_an_ssd_that_does_not_come_back_go_to_the_disk_after_the_grace() {
    let shape = RigShape::default();
    let world = shape.world();
    let (members, faults) = with_faults(&world, &shape);
    let rig = shape.open_with(&world, members).unwrap();
    fill(&rig);
    disconnect(&rig, &faults);
    rig.clock.pass_ns(59_000_000_000);
    rig.settle();
    assert!(rig.cache.dirty_bytes() > 0, "the grace is a minute");
    rig.clock.pass_ns(2_000_000_000);
    rig.settle();
    assert_eq!(rig.cache.dirty_bytes(), 0);
    assert_filled(&rig);
}
