//! Pages that SSDs give with other bytes: they are counted, named and written again.

use ferrite_crash::World;
use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;

use crate::page_word::{BlockKey, PageRef};
use crate::tests::{CacheRig, RigShape, block_of};
use crate::{BLOCK, CacheCheckOptions, CacheCheckReport, SsdState};

/// Changes the copies of `block` on the first `copies` SSDs that have one.
fn rot(world: &World, rig: &CacheRig, block: u64, copies: usize) {
    let core = &rig.cache.core;
    let page = page_of(rig, block);
    let (table, index) = core.memory.table_of(page);
    let places = core.memory.table_places(table).expect("it verifies");
    for place in places.iter().flatten().take(copies) {
        let at = core.memory.layout().page_in_ssd(place.leb, index);
        world.disk(usize::from(place.ssd)).write(at, &block_of(99), Access::Cached).expect("written");
    }
}

fn page_of(rig: &CacheRig, block: u64) -> PageRef {
    let (core, key) = (&rig.cache.core, BlockKey::new(0, block));
    let page = core.find(&core.index.lock(key), key).expect("it is cached");
    assert!(!page.is_slot(), "it was sealed");
    page
}

fn lost_bytes(rig: &CacheRig) -> u64 {
    rig.cache.stats(None).bytes.lost
}

fn checked(rig: &CacheRig) -> CacheCheckReport {
    let options = CacheCheckOptions { read: true, against_disk: false };
    rig.cache.check(&options, &mut |_, _| true).unwrap().expect("it was not ended")
}

fn dirty_rig(world: &World, shape: &RigShape) -> CacheRig {
    let rig = shape.open(world).expect("it opens");
    (0..6).for_each(|block| rig.write(block, 100 + block));
    rig.settle();
    rig
}

fn errors_and_mismatches(rig: &CacheRig) -> Vec<(u64, u64)> {
    rig.cache.stats(None).ssds.iter().map(|ssd| (ssd.errors, ssd.mismatches)).collect()
}

fn assert_all_online(rig: &CacheRig) {
    let ssds = rig.cache.core.ssds.all();
    assert!(ssds.iter().all(|ssd| ssd.state().0 == SsdState::Online), "one bad page is not a bad SSD");
}

#[test]
fn ca20_lost_bytes_rise_when_they_are_found_and_fall_when_they_are_overwritten() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = dirty_rig(&world, &shape);
    rot(&world, &rig, 2, 2);
    rot(&world, &rig, 3, 2);
    assert_eq!(lost_bytes(&rig), 0, "nothing has read them");
    for _ in 0..20 {
        rig.read(2).expect_err("both copies are bad");
    }
    assert_eq!(lost_bytes(&rig), BLOCK);
    assert_all_online(&rig);
    assert_eq!(errors_and_mismatches(&rig), [(0, 1), (0, 1)], "each copy is counted once");
    rig.cache.clean_all(true);
    rig.settle();
    assert_eq!((lost_bytes(&rig), rig.cache.dirty_bytes()), (2 * BLOCK, 2 * BLOCK), "all else is clean");
    assert_eq!(rig.cache.unreadable_bytes(), 2 * BLOCK);
    let shown = rig.cache.show_unreadable();
    assert!(shown.contains("8192 dirty bytes are lost"), "{shown}");
    assert!(shown.contains("block 2 of disk \"c\", block 3 of disk \"c\""), "{shown}");
    assert_all_online(&rig);
    drop(rig);
    let rig = shape.open(&world).expect("it opens");
    assert_eq!(lost_bytes(&rig), 2 * BLOCK, "the pool knows");
    rig.write(2, 200);
    assert_eq!(lost_bytes(&rig), BLOCK);
    rig.write(3, 201);
    assert_eq!(lost_bytes(&rig), 0);
    rig.settle();
    rig.clean();
    assert_eq!((rig.read(2), rig.read(3)), (Ok(block_of(200)), Ok(block_of(201))));
}

#[test]
fn canary_lost_page_that_is_not_recorded_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = plant("cache: what is lost is not recorded");
        ca20_lost_bytes_rise_when_they_are_found_and_fall_when_they_are_overwritten();
    });
    assert!(caught.is_err());
}

#[test]
fn page_with_one_bad_copy_is_written_again() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = dirty_rig(&world, &shape);
    rot(&world, &rig, 4, 1);
    let report = checked(&rig);
    assert_eq!(report.found, 1, "{report:?}");
    assert_eq!(lost_bytes(&rig), 0);
    let mismatches: u64 = errors_and_mismatches(&rig).iter().map(|(_, mismatches)| mismatches).sum();
    assert_eq!(mismatches, 1);
    rig.settle();
    assert!(rig.cache.core.bad.all().is_empty(), "the new version has no bad copy");
    assert_eq!(rig.read(4), Ok(block_of(104)));
    (10..13).for_each(|block| rig.write(block, block));
    rig.settle();
    let report = checked(&rig);
    assert!(report.is_sound(), "{report:?}");
}

/// Overwrites a block with a bad copy, and lets its LEB be used again. Returns true if the block that is there then can be
/// read.
fn next_version_can_be_read() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = dirty_rig(&world, &shape);
    rot(&world, &rig, 2, 2);
    rig.read(2).expect_err("both copies are bad");
    let mut version = 300;
    for _ in 0..60 {
        (0..6).for_each(|block| {
            version += 1;
            rig.write(block, version);
        });
        rig.settle();
    }
    rig.cache.core.bad.all().is_empty() && (0..6).all(|block| rig.read(block) == Ok(block_of(version - 5 + block)))
}

#[test]
fn bc1_bad_copy_is_forgotten_with_its_version() {
    assert!(next_version_can_be_read());
}

#[test]
fn canary_bad_copy_that_outlives_its_version_is_caught() {
    let _bug = plant("cache: a bad copy outlives its version");
    assert!(!next_version_can_be_read());
}

/// Returns a rig with a dirty block 2 none of whose copies is right, which is known.
fn rig_with_lost_block(world: &World, shape: &RigShape) -> CacheRig {
    let rig = dirty_rig(world, shape);
    rot(world, &rig, 2, 2);
    rig.read(2).expect_err("both copies are bad");
    rig
}

fn assert_refused_for_block_2(refused: crate::Result<()>) {
    let refused = refused.expect_err("block 2 is lost").to_string();
    for part in ["4096 dirty bytes are on SSD 1", "block 2 of disk \"c\"", "overwrite them", "--lose 4096"] {
        assert!(refused.contains(part), "{part} is not in: {refused}");
    }
}

fn assert_left(rig: &CacheRig) {
    rig.settle();
    rig.cache.ensure_removal_ends(1).expect("nothing keeps it");
    assert_eq!(rig.cache.removal_left(1), None, "it left");
}

#[test]
fn removal_of_an_ssd_with_a_lost_block_ends_when_the_block_is_overwritten() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = rig_with_lost_block(&world, &shape);
    assert_refused_for_block_2(rig.cache.remove_ssd(1, None));
    assert_eq!(rig.cache.removal_left(1), None, "it does not leave");
    rig.write(2, 200);
    rig.cache.remove_ssd(1, None).expect("nothing is lost");
    assert_left(&rig);
    assert_eq!((rig.read(2), rig.read(3)), (Ok(block_of(200)), Ok(block_of(103))));
}

#[test]
fn removal_of_an_ssd_gives_up_the_lost_blocks_that_the_user_names() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = rig_with_lost_block(&world, &shape);
    assert_refused_for_block_2(rig.cache.remove_ssd(1, Some(BLOCK + 1)));
    rig.cache.remove_ssd(1, Some(BLOCK)).expect("the loss is named");
    assert_left(&rig);
    drop(rig);
    let rig = shape.open(&world).expect("it opens");
    assert_eq!((lost_bytes(&rig), rig.read(2)), (0, Ok(block_of(0))), "the disk has the older version");
    (0..6).filter(|block| *block != 2).for_each(|block| assert_eq!(rig.read(block), Ok(block_of(100 + block))));
}

#[test]
fn removal_that_finds_a_lost_block_is_refused_until_the_user_names_it() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = dirty_rig(&world, &shape);
    rot(&world, &rig, 2, 2);
    rig.cache.remove_ssd(1, None).expect("nothing has read it");
    rig.settle();
    assert_refused_for_block_2(rig.cache.ensure_removal_ends(1));
    rig.cache.remove_ssd(1, Some(BLOCK)).expect("the loss is named");
    assert_left(&rig);
}

/// The right copy is on the SSD that failed, and the other one is bad.
#[test]
fn removal_of_a_failed_ssd_names_the_block_whose_other_copy_is_bad() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = dirty_rig(&world, &shape);
    let core = &rig.cache.core;
    core.note_bad(page_of(&rig, 2), &core.ssds.get(0).expect("it exists"));
    core.fail_ssd(&core.ssds.get(1).expect("it exists"), "a test says so");
    rig.settle();
    assert_refused_for_block_2(rig.cache.remove_ssd(1, None));
    rig.cache.remove_ssd(1, Some(BLOCK)).expect("the loss is named");
    assert_left(&rig);
    assert_eq!((lost_bytes(&rig), rig.read(2)), (0, Ok(block_of(0))));
}

/// A copy that is right may come back with its SSD, so the removal of another one keeps its block.
#[test]
fn removal_of_a_failed_ssd_keeps_blocks_of_a_missing_one() {
    let shape = RigShape { ssds: 3, ..RigShape::default() };
    let world = shape.world();
    drop(dirty_rig(&world, &shape));
    let rig = shape.open_without(&world, &["ssd0"]).expect("it opens");
    let core = &rig.cache.core;
    core.fail_ssd(&core.ssds.get(1).expect("it exists"), "a test says so");
    let away = core.unreadable_blocks(Some(1)).len() as u64 * BLOCK;
    assert!(away > 0);
    rig.cache.remove_ssd(1, Some(away)).expect("what is away is named");
    assert_left(&rig);
    drop(rig);
    let rig = shape.open(&world).expect("it opens");
    (0..6).for_each(|block| assert_eq!(rig.read(block), Ok(block_of(100 + block))));
}
