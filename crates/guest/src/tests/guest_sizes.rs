//! VS1 to VS4: the size of a guest changes, with a crash at every point.

use ferrite_crash::{CrashReport, ExploreOptions, LyingDisk, LyingMemory, Points, World, explore};
use ferrite_disk::{Access, Disk};
use ferrite_memory::planted::plant;
use ferrite_pool::layout::PAGE;

use super::pool_guest::{SIZE, checked, disk_of, make_on, open, pool_of};
use crate::{DirectPlane, GuestEngine, GuestError, Result};

const LARGE: u64 = SIZE + 64 * PAGE;
const SMALL: u64 = 400 * PAGE;
/// Pages that `make` writes, from the first one on.
const WRITTEN: u64 = 530;

/// Returns a guest on a disk that is long enough for [`LARGE`].
fn make() -> World {
    make_on(LARGE + 2 * PAGE)
}

fn set_size(world: &World, size: u64, lose: Option<u64>) -> Result<bool> {
    let pool = pool_of(world);
    let engine = GuestEngine::open(&pool, "g", disk_of(world), Box::new(DirectPlane), || 6)?;
    engine.set_size(size, lose, &mut |_, _| true)
}

/// Checks that the guest of `world` has the bytes of `make` as far as it goes, and zeros behind them. Returns its size.
fn ensure_content(world: &World) -> std::result::Result<u64, String> {
    let pool = pool_of(world);
    let engine = GuestEngine::open(&pool, "g", disk_of(world), Box::new(DirectPlane), || 4);
    let engine = engine.map_err(|error| error.to_string())?;
    for page in 0..engine.size() / PAGE {
        let mut bytes = [0; PAGE as usize];
        engine.read(page * PAGE, &mut bytes).map_err(|error| error.to_string())?;
        let mut expected = [if page < WRITTEN { page as u8 | 1 } else { 0 }; PAGE as usize];
        if page == 5 {
            expected[512..1024].fill(200);
        }
        if bytes != expected {
            return Err(format!("page {page} has other bytes"));
        }
    }
    Ok(engine.size())
}

#[test]
fn vs1_vs4_a_guest_grows_and_shrinks_with_its_bytes() {
    let world = make();
    assert_eq!(ensure_content(&world), Ok(SIZE));
    assert!(set_size(&world, LARGE, None).expect("the disk is long enough"));
    assert_eq!(ensure_content(&world), Ok(LARGE));
    let pool = pool_of(&world);
    open(&pool, &world).write(LARGE - PAGE, &[7; PAGE as usize], Access::Cached).expect("written");
    drop(pool);
    let refused = set_size(&world, SIZE, None);
    assert!(matches!(&refused, Err(GuestError::Refused(why)) if why.contains("--lose 4096")), "{refused:?}");
    assert!(set_size(&world, SIZE, Some(PAGE)).expect("named"));
    assert_eq!(ensure_content(&world), Ok(SIZE));
    let lost = (WRITTEN - SMALL / PAGE) * PAGE;
    assert!(set_size(&world, SMALL, Some(lost)).expect("named"));
    assert_eq!(ensure_content(&world), Ok(SMALL));
    assert!(checked(&world).is_sound(), "{:?}", checked(&world).findings);
    // The bytes that were cut off lie on the disk still, where the stamp would go.
    let data = set_size(&world, SMALL + 16 * PAGE, None);
    assert!(matches!(&data, Err(GuestError::Refused(why)) if why.contains("data")), "{data:?}");
}

/// Sizes that no guest has, and a disk that is too short, change nothing.
#[test]
fn vs3_sizes_that_are_not_possible_are_refused() {
    let world = make();
    for (size, lose, why) in [
        (SIZE + PAGE, None, "8192 bytes at least"),
        (SIZE + 512, None, "a multiple of 4096"),
        (0, None, "a multiple of 4096"),
        (LARGE + 64 * PAGE, None, "needs"),
        (SMALL, None, "--lose"),
        (SMALL, Some(PAGE), "--lose"),
        (SIZE - 4 * PAGE, Some(PAGE), "leave --lose out"),
    ] {
        let refused = set_size(&world, size, lose).expect_err("refused").to_string();
        assert!(refused.contains(why), "{size}: {refused}");
        assert_eq!(ensure_content(&world), Ok(SIZE));
    }
    assert!(set_size(&world, SIZE, None).expect("nothing to do"));
    let pool = pool_of(&world);
    let engine = GuestEngine::open(&pool, "g", disk_of(&world), Box::new(DirectPlane), || 6).expect("it opens");
    assert!(!engine.set_size(SMALL, None, &mut |_, _| false).expect("stopped"));
    drop((engine, pool));
    assert_eq!(ensure_content(&world), Ok(SIZE));
}

/// A pool or a disk from before a change of the size is refused with the other side from behind it.
#[test]
fn vs2_sides_of_two_sizes_are_refused() {
    let world = make();
    let copy = |world: &World| (world.memory().snapshot(), world.disk(0).snapshot());
    let geometry = world.disk(0).geometry();
    for (size, lose) in [(LARGE, None), (SMALL, Some((WRITTEN - SMALL / PAGE) * PAGE))] {
        let before = copy(&world);
        assert!(set_size(&world, size, lose).expect("possible"));
        let behind = copy(&world);
        for (memory, disk) in [(&before.0, &behind.1), (&behind.0, &before.1)] {
            let disk = LyingDisk::from_image(geometry.clone(), disk);
            let mixed = World::new(LyingMemory::from_image(memory, world.memory().model()), [disk]);
            mixed.memory().keep_trace(false);
            let refused = ensure_content(&mixed).expect_err("refused");
            assert!(refused.contains("do not match"), "{size}: {refused}");
        }
    }
}

/// Explores some crashes of a change.
fn explore_change(size: u64, lose: Option<u64>, bug: Option<&'static str>) -> CrashReport {
    let options = ExploreOptions {
        points: Points::Sampled(40),
        samples_per_point: 3,
        images_per_point_max: 1,
        ..ExploreOptions::default()
    };
    explore_by(&options, size, lose, bug)
}

/// Explores crashes by `options` of a change to `size` with the bug `bug`, which loses `lose` bytes.
fn explore_by(options: &ExploreOptions, size: u64, lose: Option<u64>, bug: Option<&'static str>) -> CrashReport {
    let _planted = bug.map(plant);
    let world = make();
    {
        let pool = pool_of(&world);
        assert!(open(&pool, &world).0.demote_all(&mut |_, _| true).expect("nothing fails"));
    }
    world.memory().keep_trace(true);
    world.memory().forget_trace();
    let changed = set_size(&world, size, lose);
    if bug.is_none() {
        assert!(changed.expect("nothing fails"));
    }
    world.memory().mark(1);
    explore(world.memory(), options, |crash| {
        let crashed = crash.world();
        crashed.memory().keep_trace(false);
        match ensure_content(&crashed)? {
            found if found == size || found == SIZE && !crash.has_mark(1) => {}
            other => return Err(format!("{other} bytes")),
        }
        // A second opening finds nothing pending.
        ensure_content(&crashed)?;
        let report = checked(&crashed);
        if report.is_sound() { Ok(()) } else { Err(format!("{:?}", report.findings)) }
    })
}

fn lost() -> Option<u64> {
    Some((WRITTEN - SMALL / PAGE) * PAGE)
}

/// Explores every crash of a change. Only images of the record and of the tag are samples: the pool's tests have them all.
fn explore_every(size: u64, lose: Option<u64>) {
    let options = ExploreOptions { points: Points::Widest, samples_per_point: 64, ..ExploreOptions::default() };
    let report = explore_by(&options, size, lose, None);
    assert!(report.assert_clean().sampled_points <= 2, "{report}");
}

#[test]
fn vs1_vs2_a_crash_of_growth_leaves_the_old_guest_or_the_new_one() {
    explore_every(LARGE, None);
}

#[test]
fn vs1_vs3_a_crash_of_a_cut_through_pages_with_frames_leaves_the_old_guest_or_the_new_one() {
    explore_every((WRITTEN - 2) * PAGE, Some(2 * PAGE));
}

#[test]
fn vs1_vs3_a_crash_of_shrinking_leaves_the_old_guest_or_the_new_one() {
    let report = explore_change(SMALL, lost(), None);
    assert!(report.failure.is_none(), "{report:?}");
}

#[test]
fn canary_vs2_a_stamp_that_is_erased_before_it_is_written_is_caught() {
    let report = explore_change(LARGE, None, Some("guest: the stamp is erased before it is written"));
    assert!(report.failure.is_some());
}

#[test]
fn canary_vs4_a_stamp_that_stays_in_the_guest_is_caught() {
    let report = explore_change(LARGE, None, Some("guest: the old stamp stays in the guest"));
    assert!(report.failure.is_some());
}

#[test]
fn canary_vs3_pages_behind_the_end_that_keep_their_words_are_caught() {
    let report = explore_change(SMALL, lost(), Some("guest: pages behind the end keep their words"));
    assert!(report.failure.is_some());
}

#[test]
fn canary_vs3_bytes_that_are_lost_without_a_word_are_caught() {
    let world = make();
    let _planted = plant("guest: a smaller guest loses bytes without a word");
    assert!(set_size(&world, SMALL, None).is_ok(), "the bug lets it");
}
