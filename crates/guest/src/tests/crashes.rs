//! Every crash of every move of a page, and the planted bugs that these crashes find.

use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, Points, explore, explore_kills};
use ferrite_memory::planted::plant;

use super::guest_rig::{GuestRig, GuestShape, MOMENTS, RaceMoment, check_crash};
use crate::DemotionPolicy;

fn options() -> ExploreOptions {
    ExploreOptions { points: Points::Widest, ..ExploreOptions::default() }
}

/// Explores the crashes of `run` on a new guest. Loads that contradict the program's stores panic.
fn explored(shape: GuestShape, run: impl FnOnce(&Arc<GuestRig>)) -> CrashReport {
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.memory().forget_trace();
    run(&rig);
    explore(world.memory(), &options(), |crash| check_crash(shape, crash))
}

/// Promotes more pages than there are frames, so that pages are demoted and frames are used again; a copy is stored to.
fn all_moves(rig: &GuestRig) {
    (0..5).for_each(|page| rig.put(page, 1));
    rig.put(3, 2);
    rig.put(6, 3);
    assert_eq!([0, 3, 4, 6].map(|page| rig.load(page) & 0xff), [1, 2, 1, 3]);
    let counts = rig.engine.counts();
    assert!(counts.demoted_pages > 1 && counts.reclaimed_pages > 0 && counts.returned_pages > 0, "{counts:?}");
}

#[test]
fn vr1_to_vr7_a_crash_of_any_move_keeps_every_page() {
    explored(GuestShape::default(), |rig| all_moves(rig)).assert_clean().assert_exhaustive();
}

/// Promotes more pages than there are frames, which leave one run at a time and are free then.
fn moves_without_copies(rig: &GuestRig) {
    rig.engine.set_demotion(DemotionPolicy { batch_pages: 1, keeps_copies: false });
    (0..5).for_each(|page| rig.put(page, 1));
    rig.put(3, 2);
    rig.put(6, 3);
    assert_eq!([0, 3, 4, 6].map(|page| rig.load(page) & 0xff), [1, 2, 1, 3]);
    assert_eq!(rig.engine.counts().returned_pages, 0);
}

#[test]
fn vr1_vr4_a_crash_of_any_move_without_copies_keeps_every_page() {
    explored(GuestShape::default(), |rig| moves_without_copies(rig)).assert_clean().assert_exhaustive();
}

/// The same where the process dies and the machine goes on.
#[test]
fn vr1_a_kill_at_any_move_keeps_every_page() {
    let shape = GuestShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.memory().forget_trace();
    all_moves(&rig);
    explore_kills(world.memory(), &options(), |crash| check_crash(shape, crash)).assert_clean();
}

/// Fills the frames; the program then stores to a page that leaves, at `moment` of the batch, and persists that later.
fn race(rig: &Arc<GuestRig>, moment: RaceMoment, persists: RaceMoment) {
    (0..4).for_each(|page| rig.put(page, 1));
    // Neither may be lost, whichever page leaves.
    (0..3).for_each(|page| {
        rig.at(moment, move |rig| rig.store(page, 2));
        rig.at(persists, move |rig| rig.persist(page, 2));
    });
    rig.engine.step().expect("nothing fails");
    rig.put(7, 1);
    assert_eq!([0, 1, 2].map(|page| rig.load(page) & 0xff), [2; 3]);
}

/// VR4, VP2: a store during a batch is in the page's truth, whenever it comes and whenever it is persisted.
#[test]
fn vr4_vp2_vp4_stores_during_a_batch_are_kept() {
    for (first, moment) in MOMENTS.into_iter().enumerate() {
        for persists in &MOMENTS[first..] {
            let report = explored(GuestShape::default(), |rig| race(rig, moment, *persists));
            assert!(report.failure.is_none(), "{moment:?} {persists:?}: {report:?}");
        }
    }
}

/// A store that was not persisted before its page left may be lost by a crash, or be on the disk, and the copy is right.
#[test]
fn vr5_a_copy_is_right_although_its_stores_were_not_flushed() {
    explored(GuestShape::default(), unflushed).assert_clean().assert_exhaustive();
}

fn unflushed(rig: &Arc<GuestRig>) {
    (0..4).for_each(|page| rig.store(page, 1));
    rig.engine.step().expect("nothing fails");
    rig.put(5, 1);
}

fn assert_caught(bug: &'static str, run: impl FnOnce(&Arc<GuestRig>)) {
    let planted = plant(bug);
    let report = explored(GuestShape::default(), run);
    drop(planted);
    report.expect_failure();
}

#[test]
fn canary_vr3_a_word_before_its_bytes_is_caught() {
    assert_caught("guest: a word says truth before the bytes are durable", |rig| rig.put(1, 1));
}

#[test]
fn canary_vr2_a_mapping_before_the_word_is_caught() {
    assert_caught("guest: a page is mapped and its word not stored", |rig| rig.put(1, 1));
}

#[test]
fn canary_vr4_a_flush_before_the_write_is_caught() {
    assert_caught("guest: the disk is flushed before it is written", |rig| {
        (0..4).for_each(|page| rig.put(page, 1));
        rig.engine.step().expect("nothing fails");
        rig.put(5, 1);
    });
}

#[test]
fn canary_vr5_a_frame_used_again_under_its_old_word_is_caught() {
    assert_caught("guest: a frame is used again under its old word", |rig| (0..6).for_each(|page| rig.put(page, 1)));
}

#[test]
fn canary_vr4_a_frame_that_is_free_under_the_word_of_its_page_is_caught() {
    assert_caught("guest: a frame is free under the word of its page", |rig| moves_without_copies(rig));
}

#[test]
fn canary_vr5_a_copy_whose_lines_are_not_durable_is_caught() {
    assert_caught("guest: a page is a copy before its lines are durable", unflushed);
}

#[test]
fn canary_vr1_a_copy_that_is_stored_to_under_its_word_is_caught() {
    assert_caught("guest: a copy is stored to under its word", |rig| {
        (0..4).for_each(|page| rig.put(page, 1));
        rig.engine.step().expect("nothing fails");
        rig.put(0, 2);
        rig.put(1, 2);
    });
}

#[test]
fn canary_vp2_bytes_read_before_the_page_is_staged_are_caught() {
    assert_caught("guest: bytes are read before the page is staged", |rig| race_once(rig, RaceMoment::Write));
}

#[test]
fn canary_vr4_a_page_that_leaves_although_it_is_stored_to_is_caught() {
    assert_caught("guest: a page leaves although it is mapped again", |rig| race_once(rig, RaceMoment::Flush));
}

#[test]
fn canary_vp4_a_page_shown_before_its_lines_are_durable_is_caught() {
    assert_caught("guest: a page is shown before its lines are durable", |rig| {
        (0..4).for_each(|page| rig.put(page, 1));
        (0..3).for_each(|page| rig.store(page, 2));
        (0..3).for_each(|page| rig.at(RaceMoment::Write, move |rig| rig.persist(page, 2)));
        rig.engine.step().expect("nothing fails");
    });
}

fn race_once(rig: &Arc<GuestRig>, moment: RaceMoment) {
    (0..4).for_each(|page| rig.put(page, 1));
    (0..3).for_each(|page| rig.at(moment, move |rig| rig.put(page, 2)));
    rig.engine.step().expect("nothing fails");
}
