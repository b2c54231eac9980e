//! VB1, VB2: frames join and leave a guest while a program uses it, with a crash at every point.

use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, Points, World, explore, explore_kills};
use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;
use ferrite_memory::{Memory, Scheme};
use ferrite_pool::layout::{CHUNK, PAGE};

use super::guest_rig::{GuestRig, GuestShape, MOMENTS, RaceMoment, check_crash};
use super::pool_guest::{checked, make, open, pool_of};
use super::seeded::TestChoices;
use crate::{GuestStep, Result};

fn options() -> ExploreOptions {
    ExploreOptions { points: Points::Widest, ..ExploreOptions::default() }
}

/// Brings the guest to `frames` frames, two at a time.
fn follow(rig: &GuestRig, frames: u64) {
    for _ in 0..50 {
        if rig.engine.follow(frames, 2).expect("nothing fails") == GuestStep::Rests {
            return;
        }
    }
    panic!("the guest does not follow");
}

/// A program stores to more pages than there are frames, while frames leave, join again and leave.
fn grow_and_shrink(rig: &Arc<GuestRig>) {
    (0..4).for_each(|page| rig.put(page, 1));
    follow(rig, 2);
    assert_eq!(rig.engine.frames(), 2);
    // Page 2 had a frame that has left.
    rig.put(1, 2);
    rig.put(2, 2);
    follow(rig, 6);
    (2..8).for_each(|page| rig.put(page, 3));
    follow(rig, 4);
    assert_eq!([0, 1, 2, 5, 7].map(|page| rig.load(page) & 0xff), [1, 2, 3, 3, 3]);
}

fn explored(run: impl FnOnce(&Arc<GuestRig>)) -> CrashReport {
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.memory().forget_trace();
    run(&rig);
    explore(world.memory(), &options(), |crash| check_crash(shape, crash))
}

#[test]
fn vb1_vb2_a_crash_while_frames_join_and_leave_keeps_every_page() {
    explored(grow_and_shrink).assert_clean().assert_exhaustive();
}

#[test]
fn vb1_vb2_a_kill_while_frames_join_and_leave_keeps_every_page() {
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.memory().forget_trace();
    grow_and_shrink(&rig);
    explore_kills(world.memory(), &options(), |crash| check_crash(shape, crash)).assert_clean();
}

/// The program stores to the pages that leave, at `moment` of their batch, and persists that later.
fn race(rig: &Arc<GuestRig>, moment: RaceMoment, persists: RaceMoment) {
    (0..4).for_each(|page| rig.put(page, 1));
    (0..4).for_each(|page| {
        rig.at(moment, move |rig| rig.store(page, 2));
        rig.at(persists, move |rig| rig.persist(page, 2));
    });
    follow(rig, 2);
    rig.put(7, 1);
    assert_eq!([0, 1, 2, 3].map(|page| rig.load(page) & 0xff), [2; 4]);
}

/// VB1: a store to a page whose frame leaves is kept, whenever it comes.
#[test]
fn vb1_stores_while_their_frames_leave_are_kept() {
    for (first, moment) in MOMENTS.into_iter().enumerate() {
        for persists in &MOMENTS[first..] {
            let report = explored(|rig| race(rig, moment, *persists));
            assert!(report.failure.is_none(), "{moment:?} {persists:?}: {report:?}");
        }
    }
}

fn assert_caught(bug: &'static str) {
    let _planted = plant(bug);
    let caught = std::panic::catch_unwind(|| explored(grow_and_shrink).failure.is_some());
    assert!(caught.is_err() || caught.is_ok_and(|is_found| is_found), "{bug}");
}

#[test]
fn canary_vb1_a_frame_that_leaves_with_its_truth_is_caught() {
    assert_caught("guest: a chunk leaves with its truths");
}

#[test]
fn canary_vb1_a_frame_that_leaves_under_its_word_is_caught_in_use() {
    assert_caught("guest: a chunk leaves under its words");
}

/// A lent guest gives two frames, and the answer of the owner is lost. Another user of the pool stores into them. Returns
/// true if the guest stores nothing there.
fn leaves_freed_frames_alone(bug: Option<&'static str>) -> bool {
    let _planted = bug.map(plant);
    let shape = GuestShape { is_lent: true, loses_answers: true, ..GuestShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..4).for_each(|page| rig.put(page, 1));
    let lost = (0..50).map(|_| rig.engine.follow(2, 2)).find(|followed| !matches!(followed, Ok(GuestStep::Worked)));
    assert!(lost.is_some_and(|followed| followed.is_err()), "the answer is lost");
    // The frames are the last pages before the number of frames and the room for two more.
    let freed = [4, 3].map(|behind| shape.tag_at() - behind * PAGE);
    freed.iter().for_each(|at| world.memory().store(*at, &[7; PAGE as usize], Scheme::Nt));
    let _ = rig.engine.follow(4, 2);
    (0..8).for_each(|page| rig.put(page, 2));
    assert_eq!([0, 1, 7].map(|page| rig.load(page) & 0xff), [2; 3]);
    freed.iter().all(|at| {
        let mut bytes = [0; PAGE as usize];
        world.memory().load(*at, &mut bytes);
        bytes == [7; PAGE as usize]
    })
}

/// HO8, VB1: a lent guest does not use a frame again that its owner may have freed.
#[test]
fn ho8_vb1_frames_that_are_perhaps_free_are_not_used() {
    assert!(leaves_freed_frames_alone(None));
}

#[test]
fn canary_ho8_frames_that_are_perhaps_free_and_stay_are_caught() {
    assert!(!leaves_freed_frames_alone(Some("guest: frames that are perhaps free stay")));
}

/// A client writes while a chunk leaves and another thread fills a frame of it. Returns true if every page is right.
fn fill_while_leaving(bug: Option<&'static str>) -> bool {
    let _planted = bug.map(plant);
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    let take = || rig.engine.lock().frames.take_free().expect("all are free");
    let [_, _, filled] = [take(), take(), take()];
    assert_eq!(filled, 2, "the first frames are taken first");
    let rests = rig.engine.follow(2, 2).expect("nothing fails");
    if rests != GuestStep::Rests || rig.engine.frames() != 4 {
        return false;
    }
    rig.engine.lock().frames.put_back(filled);
    follow(&rig, 2);
    rig.engine.frames() == 2
}

#[test]
fn vb1_a_frame_that_a_thread_fills_does_not_leave() {
    assert!(fill_while_leaving(None));
}

#[test]
fn canary_vb1_a_frame_that_leaves_while_it_is_filled_is_caught() {
    assert!(!fill_while_leaving(Some("guest: a chunk leaves while a frame of it is filled")));
}

/// VB1: random stores and changes keep every page, and the guest always has room.
#[test]
fn vb1_seeded_changes_keep_every_page() {
    for seed in 0..60 {
        let shape = GuestShape { frames: 16, frames_max: 32, pages: 48, ..GuestShape::default() };
        let world = shape.world();
        world.memory().keep_trace(false);
        let rig = shape.open(&world).expect("it opens");
        let mut choices = TestChoices(seed);
        let mut versions = vec![0; 48];
        for version in 1..200 {
            let page = choices.below(48);
            match choices.below(6) {
                0 => drop(rig.engine.follow(4 + choices.below(29), 4).expect("nothing fails")),
                1 => drop(rig.engine.step().expect("nothing fails")),
                _ => {
                    rig.put(page, version);
                    versions[page as usize] = version;
                }
            }
        }
        assert_eq!(rig.versions().expect("read"), versions, "seed {seed}");
        rig.check_disk().expect("the disk has all");
    }
}

/// Returns the pages of the guest of [`make`] that are not what it wrote.
fn wrong_pages(world: &World) -> Vec<u64> {
    let pool = pool_of(world);
    let disk = open(&pool, world);
    let is_wrong = |page: &u64| {
        let mut bytes = [0; PAGE as usize];
        disk.read(page * PAGE, &mut bytes).expect("read");
        bytes != [*page as u8 | 1; PAGE as usize]
    };
    (0..530).filter(|page| *page != 5).filter(is_wrong).collect()
}

fn follow_in_pool(disk: &crate::GuestDisk, chunks: u64) -> Result<()> {
    while disk.0.follow(chunks * CHUNK / PAGE, CHUNK / PAGE)? != GuestStep::Rests {}
    Ok(())
}

/// VB2: in a real pool, whose transactions move the chunks.
#[test]
fn vb2_a_crash_while_chunks_move_keeps_every_page() {
    let world = make();
    let pool = pool_of(&world);
    let disk = open(&pool, &world);
    for chunks in [2, 1] {
        world.memory().keep_trace(true);
        world.memory().forget_trace();
        follow_in_pool(&disk, chunks).expect("there is space");
        assert_eq!(disk.0.frames(), chunks * 512);
        let options = ExploreOptions {
            points: Points::Sampled(6),
            samples_per_point: 1,
            images_per_point_max: 1,
            ..ExploreOptions::default()
        };
        let report = explore(world.memory(), &options, |crash| {
            let crashed = crash.world();
            crashed.memory().keep_trace(false);
            match (wrong_pages(&crashed), checked(&crashed).is_sound()) {
                (wrong, true) if wrong.is_empty() => Ok(()),
                other => Err(format!("{other:?}")),
            }
        });
        assert!(report.failure.is_none(), "{report:?}");
        world.memory().keep_trace(false);
        // The new frames get pages, so that truths leave with the next change.
        (600..1000).for_each(|page| disk.write(page * PAGE, &[7; PAGE as usize], Access::Cached).expect("written"));
    }
}
