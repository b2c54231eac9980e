//! Changes of a guest's part of the pool.

use std::time::Duration;

use ferrite_crash::{CrashReport, ExploreOptions, Points, World, explore};
use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;
use ferrite_pool::layout::{CHUNK, PAGE};
use ferrite_pool::{Role, Stream};

use super::pool_guest::{checked, make, open, pool_of};
use crate::frame_space::FrameSpace;
use crate::guest_resize::{drop_last, resize};
use crate::{GuestError, Result};

/// Demotes all pages of the guest of `world`.
fn flush(world: &World) {
    let pool = pool_of(world);
    let disk = open(&pool, world);
    assert!(disk.0.demote_all(&mut |_, _| true).expect("nothing fails"));
}

fn resized(world: &World, chunks: u64) -> Result<()> {
    resize(&pool_of(world), "g", chunks * CHUNK)
}

/// Returns the frames of the guest of `world` by their states: truths, copies and free ones.
fn frames(world: &World) -> [u64; 3] {
    let pool = pool_of(world);
    let counts = open(&pool, world).0.counts();
    [counts.truth_frames, counts.copy_frames, counts.free_frames]
}

/// VB1: the guest has its content at each size, and its new frames are free.
#[test]
fn vb1_frames_join_and_leave_without_a_page() {
    let world = make();
    let [truths, copies, free] = frames(&world);
    resized(&world, 2).expect("there is space");
    assert_eq!(frames(&world), [truths, copies, free + 512]);
    ensure(&world, version);
    // Another time with other content, so that frames of the second chunk have pages.
    let again = |page: u64| version(page) ^ 2;
    write_all(&world, again);
    let refused = resized(&world, 1);
    assert!(matches!(&refused, Err(GuestError::Refused(why)) if why.contains("flush")), "{refused:?}");
    ensure(&world, again);
    flush(&world);
    resized(&world, 1).expect("nothing is newer than the disk");
    assert_eq!(frames(&world).iter().sum::<u64>(), 512);
    write_all(&world, version);
    flush(&world);
    resized(&world, 2).expect("there is space");
    ensure(&world, version);
    assert!(checked(&world).is_sound(), "{:?}", checked(&world).findings);
}

/// The last chunk of a guest stays, and a guest that has its target already keeps what it has.
#[test]
fn a_guest_keeps_its_last_chunk_and_its_target() {
    let world = make();
    resized(&world, 2).expect("there is space");
    flush(&world);
    let drop_to = |least| drop_last(&FrameSpace::of(pool_of(&world).hold("g")?)?, least);
    for (least, left) in [(1024, 1024), (0, 512), (0, 512)] {
        drop_to(least).expect("no truth is in the last chunk");
        assert_eq!(frames(&world).iter().sum::<u64>(), left);
    }
}

/// VR9: a change waits while the pool is frozen, and stores no word before.
#[test]
fn vr9_no_word_of_a_closed_guest_changes_in_a_frozen_pool() {
    let world = make();
    resized(&world, 2).expect("there is space");
    write_all(&world, |page| version(page) ^ 2);
    flush(&world);
    let pool = pool_of(&world);
    let map = Stream::new(&pool.tag("g").expect("there").extents, Role::MAP);
    let words = || {
        let at = map.locate(PAGE + 512 * 8).expect("the words of the second chunk").at;
        let mut words = [0; PAGE as usize / 2];
        pool.memory().load(at, &mut words);
        words
    };
    let before = words();
    assert!(before.iter().any(|byte| *byte != 0), "frames of the second chunk have copies");
    std::thread::scope(|scope| {
        let frozen = pool.freeze();
        let changing = scope.spawn(|| resize(&pool, "g", CHUNK));
        std::thread::sleep(Duration::from_millis(100));
        assert!(words() == before && !changing.is_finished());
        drop(frozen);
        changing.join().expect("no panic").expect("no truth is there");
    });
    assert_eq!(frames(&world).iter().sum::<u64>(), 512);
}

/// Returns the byte that [`make`] writes to `page`, of which it changes page 5 again.
fn version(page: u64) -> u8 {
    page as u8 | 1
}

/// Writes the first 530 pages, each full of its `version`.
fn write_all(world: &World, version: impl Fn(u64) -> u8) {
    let pool = pool_of(world);
    let disk = open(&pool, world);
    for page in 0..530 {
        disk.write(page * PAGE, &[version(page); PAGE as usize], Access::Cached).expect("written");
    }
}

/// Asserts that the pages of the guest of `world` have their `version`.
fn ensure(world: &World, version: impl Fn(u64) -> u8) {
    let pool = pool_of(world);
    let disk = open(&pool, world);
    for page in (0..530).filter(|page| *page != 5) {
        let mut bytes = [0; PAGE as usize];
        disk.read(page * PAGE, &mut bytes).expect("read");
        assert!(bytes == [version(page); PAGE as usize], "page {page}");
    }
}

/// Shrinks a guest with the bug `bug`, uses it and grows it. Returns true if it then has other content or does not open.
fn is_caught(bug: &'static str, is_flushed: bool) -> bool {
    let world = make();
    resized(&world, 2).expect("there is space");
    write_all(&world, |page| version(page) ^ 2);
    if is_flushed {
        flush(&world);
    }
    let planted = plant(bug);
    resized(&world, 1).expect("the bug lets it");
    drop(planted);
    let content = |page| if is_flushed { version(page) ^ 4 } else { version(page) ^ 2 };
    let used = std::panic::catch_unwind(|| {
        if is_flushed {
            write_all(&world, content);
            resized(&world, 2).expect("there is space");
        }
        ensure(&world, content);
    });
    used.is_err()
}

#[test]
fn canary_vb1_a_truth_that_leaves_with_its_frame_is_caught() {
    assert!(is_caught("guest: a truth leaves with its frame", false));
}

#[test]
fn canary_vb1_a_frame_that_leaves_under_its_word_is_caught() {
    assert!(is_caught("guest: a frame leaves under its word", true));
}

/// Changes the guest to `chunks` chunks, and returns what crashes at these `points` leave.
fn crashes_of_change(world: &World, chunks: u64, points: Points) -> CrashReport {
    world.memory().keep_trace(true);
    world.memory().forget_trace();
    resized(world, chunks).expect("there is space");
    let options = ExploreOptions { points, samples_per_point: 1, images_per_point_max: 1, ..ExploreOptions::default() };
    let report = explore(world.memory(), &options, |crash| {
        let crashed = crash.world();
        crashed.memory().keep_trace(false);
        ensure(&crashed, version);
        match frames(&crashed).iter().sum() {
            512 | 1024 => Ok(()),
            other => Err(format!("{other} frames")),
        }
    });
    world.memory().keep_trace(false);
    report
}

/// VB2: a crash of a change leaves the old frames or the new ones, and every page.
#[test]
fn vb2_a_crash_of_a_change_keeps_every_page() {
    let world = make();
    flush(&world);
    for chunks in [2, 1] {
        let report = crashes_of_change(&world, chunks, Points::Sampled(6));
        assert!(report.failure.is_none(), "{report:?}");
    }
}

#[test]
fn canary_vb2_frames_that_join_before_their_words_are_caught() {
    let world = make();
    flush(&world);
    let _planted = plant("guest: frames join before their words");
    crashes_of_change(&world, 2, Points::Widest).expect_failure();
}
