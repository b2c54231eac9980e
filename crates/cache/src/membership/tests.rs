//! SSDs join and leave (CM1 to CM3, MP1 to MP3), also through crashes at each event.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use ferrite_crash::{CrashReport, Model, World, explore, explore_kills};
use ferrite_disk::{Access, Disk, FaultAction, FaultCondition, FaultDisk, FaultError, FaultPlan};
use ferrite_memory::Scheme;
use ferrite_memory::planted::plant;

use crate::cache_memory::CacheMemory;
use crate::tests::{BLOCKS, CacheRig, RigShape, block_of, kill_options, members_of, open_pool, options};
use crate::{CacheError, CacheSettings, CopyRule, NewSsd, SsdState};

fn shape(ssds: usize) -> RigShape {
    RigShape { ssds, spares: 1, ..RigShape::default() }
}

/// Returns the spare SSD of `world`, as one that joins.
fn spare(world: &World, shape: &RigShape) -> NewSsd {
    let address = format!("ssd{}", shape.ssds);
    NewSsd { disk: Arc::clone(&members_of(world, shape)[&address]), address, uuid: [0x77; 16] }
}

/// Writes version `100 + block` to the first `count` blocks, and settles.
fn fill(rig: &CacheRig, count: u64) {
    rig.settle();
    for block in 0..count {
        rig.write(block, 100 + block);
        // The buffers have room for a few blocks only.
        if block % 3 == 2 {
            rig.settle();
        }
    }
}

fn assert_filled(rig: &CacheRig, count: u64) -> Result<(), String> {
    for block in 0..BLOCKS {
        let version = if block < count { 100 + block } else { 0 };
        if rig.read(block)? != block_of(version) {
            return Err(format!("block {block} has not version {version}"));
        }
    }
    Ok(())
}

fn ssds(rig: &CacheRig) -> Vec<(u8, SsdState)> {
    rig.cache.core.ssds.all().iter().map(|ssd| (ssd.id, ssd.state().0)).collect()
}

fn remove_at_once(rig: &CacheRig, id: u8) {
    rig.cache.remove_ssd(id, None).expect("it may leave");
    for _ in 0..50 {
        if rig.cache.removal_left(id).is_none() {
            return;
        }
        rig.cache.step().expect("a step");
    }
    panic!("SSD {id} does not leave: {:?} bytes are left", rig.cache.removal_left(id));
}

#[test]
fn cm1_added_ssd_gets_lebs_and_stays() {
    let shape = shape(2);
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        fill(&rig, 6);
        assert_eq!(rig.cache.add_ssd(spare(&world, &shape), None).unwrap(), 2);
        for round in 0..6 {
            (12..18).for_each(|block| rig.write(block, round));
            rig.settle();
        }
        let inserts: Vec<u64> = rig.cache.core.ssds.all().iter().map(|ssd| ssd.inserts.load(Relaxed)).collect();
        assert!(inserts.iter().all(|count| *count > 0), "{inserts:?}");
        assert!(matches!(rig.cache.add_ssd(spare(&world, &shape), Some(1 << 18)), Err(CacheError::Refused(_))));
        (12..18).for_each(|block| rig.write(block, 0));
    }
    let rig = shape.open(&world).unwrap();
    assert_eq!(ssds(&rig), [(0, SsdState::Online), (1, SsdState::Online), (2, SsdState::Online)]);
    assert_filled(&rig, 6).unwrap();
}

#[test]
fn add_ssd_refuses_data_that_is_not_named() {
    let shape = shape(1);
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    let new = spare(&world, &shape);
    new.disk.write(0, &[1; 4096], Access::Cached).unwrap();
    let size = new.disk.geometry().size;
    let refused = rig.cache.add_ssd(new, None).unwrap_err().to_string();
    assert!(refused.contains(&format!("--lose {size}")), "{refused}");
    assert_eq!(rig.cache.add_ssd(spare(&world, &shape), Some(size)).unwrap(), 1);
}

#[test]
fn cm2_widened_tables_count_after_a_reopening() {
    // 16384 tables fit into a chunk.
    let shape = RigShape { ssds: 1, ..shape(1) };
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        let large = ferrite_disk::RamDisk::new(16_400 * crate::tests::LEB);
        rig.members.0.lock().insert("large".into(), Arc::new(large));
        let disk = Arc::clone(&rig.members.0.lock()["large"]);
        rig.cache.add_ssd(NewSsd { address: "large".into(), disk, uuid: [4; 16] }, None).unwrap();
        fill(&rig, 9);
        assert_eq!(rig.cache.core.memory.tables(), 15 + 16_399);
    }
    let rig = shape.open(&world).unwrap();
    assert_eq!(rig.cache.core.memory.tables(), 15 + 16_399);
    assert_eq!(ssds(&rig), [(0, SsdState::Online), (1, SsdState::Missing)]);
}

#[test]
fn cm3_removed_ssd_keeps_nothing_and_loses_nothing() {
    for (copies, ssds_count) in [(CopyRule::Dirty, 2), (CopyRule::Dirty, 3), (CopyRule::One, 2), (CopyRule::All, 3)] {
        let base = shape(ssds_count);
        let shape = RigShape { settings: CacheSettings { copies, ..base.settings }, ..base };
        let world = shape.world();
        {
            println!("{copies:?} of {ssds_count} SSDs");
            let rig = shape.open(&world).unwrap();
            fill(&rig, 12);
            remove_at_once(&rig, 1);
            assert_filled(&rig, 12).unwrap();
            fill(&rig, 12);
        }
        let rig = shape.open(&world).unwrap();
        assert!(ssds(&rig).iter().all(|(id, state)| *id != 1 && *state == SsdState::Online), "{copies:?}");
        assert_filled(&rig, 12).unwrap();
        assert!(world.disk(1).snapshot()[..8192].iter().all(|byte| *byte == 0), "its stamp is erased");
        assert_eq!(rig.pool.members().unwrap().len(), ssds_count, "one SSD less, and the disk");
        assert!(matches!(rig.cache.remove_ssd(1, None), Err(CacheError::NotFound(_))));
    }
}

#[test]
fn mp2_ssd_that_failed_leaves_without_its_stamp_or_is_refused_as_data() {
    for answers in [true, false] {
        let shape = shape(2);
        let world = shape.world();
        let mut members = members_of(&world, &shape);
        let faulty = FaultDisk::new(Arc::clone(&members["ssd1"]), FaultPlan::default());
        let faults = faulty.faults().clone();
        members.insert("ssd1".into(), Arc::new(faulty));
        let rig = shape.open_with(&world, members.clone()).unwrap();
        fill(&rig, 9);
        let all = FaultPlan::of(FaultAction::Error(FaultError::Io), FaultCondition::default());
        faults.set(all);
        (9..12).for_each(|block| rig.write(block, 100 + block));
        rig.settle();
        rig.cache.core.fail_ssd(&rig.cache.core.ssds.get(1).unwrap(), "a test says so");
        if answers {
            faults.set(FaultPlan::default());
        }
        remove_at_once(&rig, 1);
        faults.set(FaultPlan::default());
        assert_filled(&rig, 12).unwrap();
        assert_eq!(rig.pool.members().unwrap().len(), 2);
        assert!(matches!(rig.cache.online(1, None), Err(CacheError::NotFound(_))));
        assert_eq!(world.disk(1).snapshot()[..8192].iter().all(|byte| *byte == 0), answers);
        // What is left on it is data that the user has to name.
        let again = || NewSsd { address: "ssd1".into(), disk: Arc::clone(&members["ssd1"]), uuid: [0x78; 16] };
        let refused = rig.cache.add_ssd(again(), None).unwrap_err().to_string();
        assert!(refused.contains("--lose 262144"), "{refused}");
        assert_eq!(rig.cache.add_ssd(again(), Some(262_144)).unwrap(), 2);
        fill(&rig, 12);
        drop(rig);
        let rig = shape.open_with(&world, members).unwrap();
        assert_eq!(ssds(&rig), [(0, SsdState::Online), (2, SsdState::Online)]);
        assert_filled(&rig, 12).unwrap();
    }
}

/// Returns a rig whose SSD 1 has failed with the only copies of some dirty pages, their bytes, and the blocks that can
/// still be read.
fn failed_alone(world: &World, shape: &RigShape) -> (CacheRig, u64, Vec<u64>) {
    let rig = shape.open(world).unwrap();
    fill(&rig, 9);
    rig.cache.core.fail_ssd(&rig.cache.core.ssds.get(1).unwrap(), "a test says so");
    let kept: Vec<u64> = (0..9).filter(|block| rig.read(*block).is_ok()).collect();
    assert!((1..9).contains(&kept.len()), "each SSD has some");
    let bytes = (9 - kept.len() as u64) * crate::BLOCK;
    (rig, bytes, kept)
}

#[test]
fn removal_of_the_last_copies_loses_only_what_the_user_names() {
    let base = shape(2);
    let shape = RigShape { settings: CacheSettings { copies: CopyRule::One, ..base.settings }, ..base };
    let world = shape.world();
    let kept = {
        let (rig, bytes, kept) = failed_alone(&world, &shape);
        for lose in [None, Some(0), Some(bytes + 4096)] {
            let refused = rig.cache.remove_ssd(1, lose).unwrap_err().to_string();
            assert!(refused.contains(&format!("remove-ssd --lose {bytes}")), "{refused}");
        }
        assert_eq!(rig.cache.removal_left(1), None, "it is not leaving");
        rig.cache.remove_ssd(1, Some(bytes)).unwrap();
        rig.settle();
        assert_eq!(rig.cache.removal_left(1), None, "it left");
        kept
    };
    let rig = shape.open(&world).unwrap();
    assert_eq!(ssds(&rig), [(0, SsdState::Online)]);
    for block in 0..BLOCKS {
        let version = if kept.contains(&block) { 100 + block } else { 0 };
        assert!(rig.read(block).unwrap() == block_of(version), "block {block}");
    }
    rig.clean();
}

#[test]
fn ssd_that_fails_while_it_leaves_keeps_its_last_copies_until_the_user_names_them() {
    let base = shape(2);
    let shape = RigShape { settings: CacheSettings { copies: CopyRule::One, ..base.settings }, ..base };
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    fill(&rig, 9);
    rig.cache.remove_ssd(1, None).unwrap();
    rig.cache.ensure_removal_ends(1).unwrap();
    let dirty = rig.cache.dirty_bytes();
    rig.cache.core.fail_ssd(&rig.cache.core.ssds.get(1).unwrap(), "a test says so");
    rig.settle();
    assert!(rig.cache.removal_left(1).is_some(), "it does not leave");
    assert_eq!(rig.cache.dirty_bytes(), dirty);
    let refused = rig.cache.ensure_removal_ends(1).unwrap_err().to_string();
    let bytes: u64 = refused.split("--lose ").nth(1).unwrap().trim_end_matches('`').parse().unwrap();
    rig.cache.remove_ssd(1, Some(bytes)).unwrap();
    rig.settle();
    assert_eq!(rig.cache.removal_left(1), None);
    assert_eq!(rig.cache.dirty_bytes(), dirty - bytes);
}

#[test]
fn canary_removal_of_an_ssd_that_does_not_ask_is_caught() {
    let base = shape(2);
    let shape = RigShape { settings: CacheSettings { copies: CopyRule::One, ..base.settings }, ..base };
    let world = shape.world();
    let (rig, ..) = failed_alone(&world, &shape);
    let _bug = plant("cache: a removal of an SSD does not ask for dirty data");
    assert!(rig.cache.remove_ssd(1, None).is_ok());
}

#[test]
fn removal_continues_behind_a_reopening_and_can_be_cancelled() {
    let shape = shape(2);
    let world = shape.world();
    {
        let rig = shape.open(&world).unwrap();
        fill(&rig, 9);
        rig.cache.remove_ssd(1, None).unwrap();
        assert!(rig.cache.removal_left(1).unwrap() > 0);
        let refused = rig.cache.remove_ssd(0, None).unwrap_err().to_string();
        assert!(refused.contains("add one first"), "{refused}");
    }
    let rig = shape.open(&world).unwrap();
    assert_eq!(ssds(&rig)[1], (1, SsdState::Leaving));
    rig.cache.cancel_removal(1).unwrap();
    assert_eq!(rig.cache.removal_left(1), None);
    assert_eq!(ssds(&rig)[1], (1, SsdState::Online));
    for round in 0..20 {
        (12..18).for_each(|block| rig.write(block, round));
        rig.settle();
    }
    (12..18).for_each(|block| rig.write(block, 0));
    assert_filled(&rig, 9).unwrap();
    drop(rig);
    remove_at_once(&shape.open(&world).unwrap(), 1);
    assert_eq!(ssds(&shape.open(&world).unwrap()).len(), 1);
}

/// Returns an error unless the cache opens with its content, and the pool lists exactly the members of the cache.
fn judge(shape: &RigShape, world: &World, count: u64) -> Result<(), String> {
    for when in ["opened", "opened again"] {
        let rig = shape.open(world).map_err(|error| format!("{when}: {error}"))?;
        assert_filled(&rig, count).map_err(|error| format!("{when}: {error}"))?;
        let config = rig.cache.core.config.lock().config.clone();
        let mut known: Vec<[u8; 16]> = config.ssds.iter().map(|ssd| ssd.uuid).collect();
        known.extend(config.disks.iter().map(|disk| disk.uuid));
        known.sort_unstable();
        let members = rig.pool.members().map_err(|error| error.to_string())?;
        let mut listed: Vec<[u8; 16]> = members.iter().map(|member| member.uuid).collect();
        listed.sort_unstable();
        if known != listed || !config.pending.is_empty() {
            return Err(format!("{when}: the cache has {known:?} and the pool {listed:?}, {:?}", config.pending));
        }
        if let Some(ssd) = ssds(&rig).iter().find(|(_, state)| !matches!(state, SsdState::Online | SsdState::Leaving)) {
            return Err(format!("{when}: {ssd:?}"));
        }
        if when == "opened again" {
            for (id, state) in ssds(&rig) {
                if state == SsdState::Leaving {
                    remove_at_once(&rig, id);
                }
            }
            rig.clean();
            assert_filled(&rig, count).map_err(|error| format!("cleaned: {error}"))?;
        }
    }
    Ok(())
}

/// Runs `change` on a cache with content, and judges what a crash at each event leaves.
fn explored(shape: &RigShape, is_kill: bool, change: impl FnOnce(&CacheRig, &World)) -> CrashReport {
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    fill(&rig, 9);
    rig.disk.flush().unwrap();
    world.memory().forget_trace();
    change(&rig, &world);
    drop(rig);
    let explore = |check: &mut dyn FnMut(&ferrite_crash::Crash<'_>) -> Result<(), String>| match is_kill {
        true => explore_kills(world.memory(), &kill_options(), check),
        false => explore(world.memory(), &options(), check),
    };
    explore(&mut |crash| judge(shape, &crash.world(), 9))
}

fn explored_add(model: Model, is_kill: bool) -> CrashReport {
    let shape = RigShape { model, ..shape(1) };
    explored(&shape, is_kill, |rig, world| {
        let _ = rig.cache.add_ssd(spare(world, &shape), None);
    })
}

fn explored_removal(model: Model, is_kill: bool, copies: CopyRule) -> CrashReport {
    let base = shape(3);
    let settings = CacheSettings { copies, ..base.settings };
    explored(&RigShape { model, spares: 0, settings, ..base }, is_kill, |rig, _| remove_at_once(rig, 1))
}

#[test]
fn mp1_crash_while_an_ssd_joins_leaves_the_cache_with_or_without_it() {
    for model in [Model::MAPPED, Model::FILE] {
        let report = explored_add(model, false);
        println!("{report}");
        report.assert_clean();
    }
    explored_add(Model::MAPPED, true).assert_clean();
}

#[test]
fn mp2_crash_while_an_ssd_leaves_loses_nothing() {
    for (model, copies) in
        [(Model::MAPPED, CopyRule::Dirty), (Model::MAPPED, CopyRule::One), (Model::FILE, CopyRule::One)]
    {
        let report = explored_removal(model, false, copies);
        println!("{report}");
        report.assert_clean();
    }
    explored_removal(Model::MAPPED, true, CopyRule::Dirty).assert_clean();
}

#[test]
fn canary_configuration_names_an_ssd_before_its_stamp_is_caught() {
    let _bug = plant("cache: the configuration names an SSD before its stamp");
    explored_add(Model::MAPPED, false).expect_failure();
}

#[test]
fn canary_ssd_that_leaves_is_released_before_it_is_pending_is_caught() {
    let _bug = plant("cache: an SSD that leaves is released before it is pending");
    explored_removal(Model::MAPPED, false, CopyRule::One).expect_failure();
}

/// Returns true if a removal waits for a read of a LEB that is under way.
fn removal_waits_for_a_reader() -> bool {
    let shape = shape(3);
    let world = shape.world();
    let rig = shape.open(&world).unwrap();
    fill(&rig, 9);
    let core = &rig.cache.core;
    let is_on = |table: &u32| core.memory.table_places(*table).unwrap().iter().flatten().any(|place| place.ssd == 1);
    let table =
        (0..core.memory.tables()).find(|table| core.memory.table_state(*table).live.load(Relaxed) > 0 && is_on(table));
    let state = core.memory.table_state(table.expect("a table names SSD 1"));
    state.readers.fetch_add(1, Relaxed);
    rig.cache.remove_ssd(1, None).unwrap();
    rig.settle();
    let waits = rig.cache.removal_left(1).is_some_and(|left| left > 0);
    state.readers.fetch_sub(1, Relaxed);
    rig.settle();
    assert_eq!(rig.cache.removal_left(1), None, "it ends behind the read");
    waits
}

#[test]
fn cm3_removal_waits_for_readers() {
    assert!(removal_waits_for_a_reader());
}

#[test]
fn canary_ssd_leaves_while_tables_name_it_is_caught() {
    let _bug = plant("cache: an SSD leaves while tables name it");
    assert!(!removal_waits_for_a_reader());
}

#[test]
fn mp3_opening_releases_a_member_that_only_the_pool_lists() {
    let shape = shape(1);
    let world = shape.world();
    {
        let pool = open_pool(&world).unwrap();
        let memory = CacheMemory::new(pool.hold("c").unwrap(), Scheme::Nt).unwrap();
        let mut config = memory.load_config().unwrap();
        let new = spare(&world, &shape);
        let known = crate::SsdConfig { id: 1, uuid: new.uuid, address: new.address, ..config.config.ssds[0].clone() };
        config.config.add_pending((&known).into());
        config.sequence += 1;
        memory.store_config(&config).unwrap();
        let cache = memory.lease().tag().generation;
        crate::cache_spec::add_ssd_member(&pool, cache, &known, 16 << 10, &new.disk, 1).unwrap();
    }
    judge(&shape, &world, 0).unwrap();
    assert!(world.disk(2).snapshot()[..8192].iter().all(|byte| *byte == 0), "its stamp is erased");
}
