//! Disks that fail, ties that do not match, and copies of the pool.

use std::sync::Arc;

use ferrite_crash::World;
use ferrite_disk::{Access, Disk};
use ferrite_memory::Memory;
use ferrite_memory::planted::plant;
use ferrite_pool::Freeze;
use ferrite_pool::layout::PAGE;

use super::guest_rig::{GuestShape, check_world, value_of};
use crate::{GuestError, GuestStep};

/// Each request of the disk fails once: a write that was refused is tried again, and nothing is lost.
#[test]
fn vr4_a_disk_that_fails_loses_nothing() {
    let shape = GuestShape::default();
    for failing in 0.. {
        let world = shape.world();
        let rig = shape.open(&world).expect("it opens");
        let before = world.disk(0).requests();
        world.disk(0).fail_nth(before + failing);
        let mut failures = 0;
        for page in 0..shape.pages {
            for _ in 0..4 {
                match rig.engine.write(page * PAGE, &value_of(page, 1).to_le_bytes()) {
                    Ok(()) => break,
                    Err(GuestError::Medium(_)) => failures += 1,
                    Err(other) => panic!("{other}"),
                }
            }
        }
        // The request may fail here.
        let versions = rig.versions().or_else(|_| rig.versions());
        assert_eq!(versions, Ok(vec![1; shape.pages as usize]), "request {failing}");
        let marks: Vec<u64> = (0..shape.pages).map(|page| value_of(page, 1)).collect();
        check_world(shape, &world.crash(failing), &marks).expect("nothing is lost");
        if failures == 0 {
            assert!(failing > 8, "the sweep ends after the last request");
            return;
        }
    }
}

/// A page that the disk can read is promoted, although the disk fails to read the pages behind it.
#[test]
fn a_bad_sector_of_a_neighbour_blocks_no_page() {
    let shape = GuestShape { frames: 16, ..GuestShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.disk(0).fail_nth(world.disk(0).requests());
    assert!(rig.engine.fault(3).expect("read alone"));
    let counts = rig.engine.counts();
    assert_eq!((counts.promoted_pages, counts.truth_frames, counts.free_frames), (1, 1, 15));
}

/// VR9: the disk of another time is refused, by the time.
#[test]
fn vr9_a_disk_of_another_time_is_refused() {
    let shape = GuestShape::default();
    let world = shape.world();
    drop(shape.open(&world).expect("it opens"));
    let old = world.crash(1);
    drop(shape.open(&world).expect("it opens again"));
    let mixed = |memory: &World, disk: &World| {
        let image = disk.disk(0).snapshot();
        let memory = ferrite_crash::LyingMemory::from_image(&memory.memory().snapshot(), shape.model);
        let disk = ferrite_crash::LyingDisk::from_image(disk.disk(0).geometry(), &image);
        shape.open(&World::new(memory, [disk])).map(drop)
    };
    let refused = |result: crate::Result<()>, why: &str| match result {
        Err(GuestError::Refused(text)) => assert!(text.contains(why), "{text}"),
        other => panic!("{other:?}"),
    };
    refused(mixed(&old, &world), "later time than the pool");
    refused(mixed(&world, &old), "earlier time than the pool");
    refused(mixed(&world, &shape.world()), "no stamp");
    mixed(&world, &world).expect("the two belong together");
}

/// Returns true if a copy of the pool is accepted with the disk of later. It was made while the pool stood still; that of a
/// lent guest, while the engine knew nothing of it.
fn accepts_old_copy(is_lent: bool) -> bool {
    let shape = GuestShape { is_lent, ..GuestShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..4).for_each(|page| rig.put(page, 1));
    if !is_lent {
        rig.engine.freeze();
    }
    let copy = world.memory().snapshot();
    if !is_lent {
        rig.engine.thaw();
    }
    assert_eq!(rig.engine.step().expect("nothing fails"), GuestStep::Worked);
    let memory = ferrite_crash::LyingMemory::from_image(&copy, shape.model);
    let disk = ferrite_crash::LyingDisk::from_image(world.disk(0).geometry(), &world.disk(0).snapshot());
    shape.open(&World::new(memory, [disk])).is_ok()
}

#[test]
fn vr9_a_copy_of_the_pool_is_refused_once_the_disk_has_moved_on() {
    assert!(!accepts_old_copy(false) && !accepts_old_copy(true));
}

#[test]
fn canary_vr9_a_tie_that_does_not_move_is_caught() {
    let _bug = plant("guest: the tie does not move behind a copy of the pool");
    assert!(accepts_old_copy(false) && accepts_old_copy(true));
}

/// VR9: while the pool stands still writes wait and reads go on.
#[test]
fn vr9_a_pool_that_stands_still_gets_no_store() {
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    rig.put(1, 1);
    rig.engine.freeze();
    let before = world.memory().snapshot();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| rig.engine.write(0, &[1; 4096]));
        let mut bytes = [0; 8];
        rig.engine.read(PAGE, &mut bytes).expect("read");
        assert_eq!(u64::from_le_bytes(bytes), value_of(1, 1));
        std::thread::yield_now();
        assert!(world.memory().snapshot() == before && !writer.is_finished());
        rig.engine.thaw();
        writer.join().expect("no panic").expect("written");
    });
}

/// VR6: words that no engine can have written are damage, and nothing is guessed.
#[test]
fn vr6_damaged_words_are_refused() {
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..2).for_each(|page| rig.put(page, 1));
    drop(rig);
    let image = world.memory().snapshot();
    let words: Vec<usize> = (0..4).map(|frame| (PAGE + frame * 8) as usize).collect();
    let used: Vec<usize> = words.iter().copied().filter(|at| image[*at..at + 8] != [0; 8]).collect();
    let open = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut image = image.clone();
        change(&mut image);
        let memory = ferrite_crash::LyingMemory::from_image(&image, shape.model);
        let disk = ferrite_crash::LyingDisk::from_image(world.disk(0).geometry(), &world.disk(0).snapshot());
        shape.open(&World::new(Arc::new(memory), [disk])).map(drop)
    };
    open(&|_| ()).expect("sound");
    let doubled = open(&|image| image.copy_within(used[0]..used[0] + 8, used[1])).expect_err("two frames of a page");
    assert!(doubled.to_string().contains("another frame has"), "{doubled}");
    let flipped = open(&|image| image[used[0]] ^= 4).expect_err("a flipped bit");
    assert!(flipped.to_string().contains("is damaged"), "{flipped}");
    assert!(world.memory().size() > 0 && world.disk(0).write(0, &[0; 512], Access::Cached).is_ok());
}
