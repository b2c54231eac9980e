//! KI2, KI3, KI4, KI7: crashes and failures of the disk during saves.

use ferrite_crash::{Crash, CrashReport, ExploreOptions, LyingDisk, Points, World, explore, explore_kills};
use ferrite_memory::planted::plant;

use super::kept::{FROZEN, blank_image, geometry, kept, restored_kept};
use super::*;
use crate::backup::kept_format::capacity_bytes;
use crate::tests::support::{CheckVerdict, options};

fn content(save: u64) -> Vec<u8> {
    vec![save as u8; 3 * PAGE as usize + 100]
}

/// A pool, and a disk with a blank image of it. Exploring starts here.
fn world() -> (World, Arc<Pool>) {
    let memory = Arc::new(LyingMemory::new(POOL_BYTES_MIN, Model::MAPPED));
    Pool::create(&*memory, &Format { uuid: [1; 16], boot_id: BOOT }).unwrap();
    let disk = LyingDisk::new(geometry(capacity_bytes(POOL_BYTES_MIN)));
    let world = World::new(Arc::clone(&memory), [disk]);
    let pool = Arc::new(open(world.memory()));
    blank_image(&pool, world.disk(0));
    world.memory().barrier().unwrap();
    world.memory().forget_trace();
    (world, pool)
}

/// Saves three times, and marks each save that returned. `fail` names a request of the second save, from its end, that
/// fails, and the process is started again then.
fn run(fail: Option<u64>) -> World {
    let (_, requests) = run_with(None);
    run_with(fail.map(|from_end| requests - 1 - from_end)).0
}

/// Saves three times: see [`run`]. Returns the requests of the second save, too; `fail` counts from its first.
fn run_with(fail: Option<u64>) -> (World, u64) {
    let (world, pool) = world();
    let disk = world.disk(0);
    let mut image = kept(disk);
    let mut requests = [0; 4];
    for save in 1..=3 {
        put(&pool, "value", &content(save));
        let before = disk.requests();
        fail.into_iter().filter(|_| save == 2).for_each(|number| disk.fail_nth(before + number));
        match image.save(&pool, &FROZEN, &mut quiet) {
            Ok(_) => world.memory().mark(save),
            Err(_) => {
                assert!(save == 2 && fail.is_some());
                image = kept(disk);
            }
        }
        requests[save as usize] = disk.requests() - before;
    }
    (world, requests[2])
}

/// KI2: the image holds a whole save: the last that returned, or a later one.
fn holds_a_save(crash: &Crash<'_>) -> CheckVerdict {
    let memory = blank(POOL_BYTES_MIN);
    match restored_kept(&crash.disk(0), &memory) {
        Err(Error::Limit(_)) if crash.last_mark().is_none() => return Ok(()),
        restored => restored.map_err(|error| format!("KI2: {error}"))?,
    };
    let found = get(&open(&memory), "value");
    let least = crash.last_mark().unwrap_or(1);
    if (least..=3).any(|save| found == content(save)) { Ok(()) } else { Err(format!("KI2: {:?}", found.first())) }
}

fn power_failures(world: &World) -> CrashReport {
    explore(world.memory(), &options(24, 6), holds_a_save)
}

#[test]
fn ki2_a_power_failure_leaves_a_whole_save() {
    for (fail, samples) in [(None, 16), (Some(0), 6), (Some(2), 6)] {
        let report = explore(run(fail).memory(), &options(24, samples), holds_a_save);
        assert!(report.assert_clean().images > 50, "{report}");
    }
}

/// KI2, KI4: the process is killed during a save, the next one saves, and the power fails then.
#[test]
fn ki4_a_kill_and_then_a_power_failure_leave_a_whole_save() {
    let first = run(None);
    let few = ExploreOptions { points: Points::Sampled(16), ..options(2, 1) };
    let report = explore_kills(first.memory(), &few, |crash| {
        let world = crash.world();
        let Ok((pool, _)) = Pool::open(Arc::clone(world.memory()) as Arc<dyn Memory>, BOOT) else {
            return Err("the pool does not open".into());
        };
        let least = crash.last_mark();
        least.into_iter().for_each(|mark| world.memory().mark(mark));
        put(&pool, "value", &content(3));
        let mut image = kept(world.disk(0));
        image.save(&pool, &FROZEN, &mut quiet).map_err(|error| error.to_string())?;
        for seed in 0..2 {
            let after = world.crash(seed);
            let memory = blank(POOL_BYTES_MIN);
            restored_kept(after.disk(0), &memory).map_err(|error| format!("KI4: {error}"))?;
            if get(&open(&memory), "value") != content(3) {
                return Err("KI3: an acknowledged save is lost".into());
            }
        }
        Ok(())
    });
    assert!(report.assert_clean().images >= 16, "{report}");
}

/// KI7: whatever request fails, the last save stays, and the next one succeeds.
#[test]
fn ki7_a_failed_request_leaves_the_last_save() {
    let requests = |fail: Option<u64>| {
        let (world, pool) = world();
        let disk = world.disk(0);
        let mut image = kept(disk);
        put(&pool, "value", &content(1));
        image.save(&pool, &FROZEN, &mut quiet).unwrap();
        put(&pool, "value", &content(2));
        let before = disk.requests();
        fail.into_iter().for_each(|number| disk.fail_nth(before + number));
        let saved = image.save(&pool, &FROZEN, &mut quiet);
        assert_eq!(saved.is_err(), fail.is_some());
        let requests = disk.requests() - before;
        if fail.is_some() {
            assert_eq!(image.last(), None);
            let memory = blank(POOL_BYTES_MIN);
            restored_kept(disk, &memory).unwrap();
            let found = get(&open(&memory), "value");
            assert!(found == content(1) || found == content(2));
            image.save(&pool, &FROZEN, &mut quiet).unwrap();
        }
        let memory = blank(POOL_BYTES_MIN);
        restored_kept(disk, &memory).unwrap();
        assert!(get(&open(&memory), "value") == content(2));
        requests
    };
    let all = requests(None);
    assert!(all >= 4, "{all}");
    (0..all).for_each(|number| _ = requests(Some(number)));
}

#[test]
fn canary_a_header_before_its_pages_is_caught() {
    let _bug = plant("kept: the header before its pages");
    explore(run(None).memory(), &options(24, 60), holds_a_save).expect_failure();
}

#[test]
fn canary_a_block_in_place_is_caught() {
    let _bug = plant("kept: a block in place");
    power_failures(&run(None)).expect_failure();
}

#[test]
fn canary_a_changed_page_that_is_left_out_is_caught() {
    let _bug = plant("kept: a changed page is left out");
    power_failures(&run(None)).expect_failure();
}

/// KI4: the flush of the second save fails, so that its header is visible alone.
#[test]
fn canary_a_header_that_is_only_visible_is_caught() {
    let _bug = plant("kept: a header that is not durable is believed");
    power_failures(&run(Some(0))).expect_failure();
}
