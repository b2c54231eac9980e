//! Crashes of the pool, the SSDs and the disk at one instant: every event of each script (CA1 to CA9, CA14).

use ferrite_crash::{Crash, CrashReport, ExploreOptions, Model, Points, World, explore, explore_kills, rounds};
use ferrite_disk::{Access, Disk};
use ferrite_memory::Span;
use ferrite_memory::planted::plant;

use super::cache_rig::BLOCKS;
use super::{CacheRig, RigShape, block_of};
use crate::page_word::BlockKey;
use crate::{BLOCK, CacheMode, CachePolicy, CacheSettings, StampPlace};

/// A step of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    /// Write a version to a block.
    Write(u64, u64),
    Flush,
    Step,
    Clean,
    Trim(u64),
    Mode(CacheMode),
    /// Read a block twice, so that it enters the cache.
    Read(u64),
    /// Drop a clean block, as a read of one does that no SSD gives.
    Drop(u64),
}

use Act::{Clean, Drop, Flush, Mode, Read, Step, Trim, Write};

/// Writes and seals one buffer: blocks 0, 1, 2.
const SEAL: &[Act] = &[Write(0, 1), Write(1, 2), Write(2, 3), Step];

fn scripts() -> Vec<(&'static str, Vec<Act>)> {
    let with = |rest: &[Act]| [SEAL, rest].concat();
    vec![
        ("write and overwrite", vec![Write(0, 1), Write(0, 2), Flush, Write(1, 3)]),
        ("seal", with(&[Write(3, 4)])),
        ("overwrite a sealed block and seal again", with(&[Write(0, 4), Write(3, 5), Write(4, 6), Step, Write(0, 7)])),
        ("destage", with(&[Clean, Write(3, 4)])),
        ("destage and overwrite", with(&[Write(1, 4), Clean, Write(1, 5), Flush])),
        (
            "a chain of versions over three buffers",
            with(&[
                Write(0, 4),
                Write(1, 5),
                Write(0, 6),
                Write(5, 7),
                Step,
                Write(0, 8),
                Write(6, 9),
                Write(7, 10),
                Step,
            ]),
        ),
        ("around a clean block", with(&[Clean, Mode(CacheMode::WriteAround), Write(1, 4), Flush, Write(1, 5)])),
        (
            "around an overwritten block",
            with(&[Write(1, 4), Write(3, 5), Clean, Mode(CacheMode::WriteAround), Write(1, 6), Flush]),
        ),
        ("destage a slot over a clean block", with(&[Clean, Write(1, 4), Clean])),
        ("around a dropped block", with(&[Clean, Drop(1), Mode(CacheMode::WriteAround), Write(1, 4), Flush])),
        (
            "around a block that was dropped twice",
            with(&[Clean, Drop(1), Write(1, 4), Clean, Mode(CacheMode::WriteAround), Write(1, 5), Flush]),
        ),
        (
            "through",
            vec![Mode(CacheMode::WriteThrough), Write(0, 1), Write(1, 2), Flush, Write(2, 3), Step, Write(0, 4)],
        ),
        ("trim", with(&[Trim(0), Clean, Trim(1), Flush, Write(1, 4)])),
        (
            "fill behind changes around",
            vec![Mode(CacheMode::WriteAround), Write(3, 1), Read(3), Write(4, 2), Read(4), Write(5, 3), Read(5), Step],
        ),
        ("fill", vec![Read(3), Read(4), Read(5), Step, Write(4, 1), Write(6, 2), Write(7, 3), Step]),
    ]
}

fn apply(rig: &CacheRig, act: Act) {
    match act {
        Write(block, version) => rig.write(block, version),
        Flush => rig.disk.flush().expect("flushed"),
        Step => rig.settle(),
        Clean => rig.clean(),
        Trim(block) => rig.disk.trim(Span::new(block * BLOCK, BLOCK), Access::Cached).expect("trimmed"),
        Mode(mode) => rig.cache.set(CacheSettings { mode, ..rig.cache.settings() }).expect("set"),
        Drop(block) => {
            let (core, key) = (&rig.cache.core, BlockKey::new(0, block));
            let page = core.find(&core.index.lock(key), key).expect("it is in the cache");
            assert!(core.drop_clean(key, page), "it is clean");
        }
        Read(block) => (0..2).for_each(|_| _ = rig.read(block).expect("read")),
    }
}

/// Returns the versions that block `block` may have after a crash in or behind the act `done`. Version 0 is zeros.
fn allowed(shape: &RigShape, script: &[Act], done: usize, block: u64) -> Vec<u64> {
    let mut versions = vec![0];
    let mut is_write_back = shape.settings.mode == CacheMode::WriteBack;
    for (index, act) in script.iter().take(done + 1).enumerate() {
        let is_acknowledged = index < done;
        match *act {
            Write(of, version) if of == block => {
                let is_durable = is_acknowledged && is_write_back && shape.model == Model::MAPPED;
                if is_durable {
                    versions.clear();
                }
                versions.push(version);
            }
            // Both are legal from then on, until a write.
            Trim(of) if of == block => versions.push(0),
            Flush | Clean if is_acknowledged => {
                let last_write = script[..index].iter().rposition(|act| matches!(act, Write(of, _) if *of == block));
                let last_trim = script[..index].iter().rposition(|act| matches!(act, Trim(of) if *of == block));
                if let Some(at) = last_write
                    && let Write(_, version) = script[at]
                {
                    versions = vec![version];
                    if last_trim.is_some_and(|trim| trim > at) {
                        versions.push(0);
                    }
                }
            }
            Mode(mode) => is_write_back = mode == CacheMode::WriteBack,
            _ => {}
        }
    }
    versions
}

fn judge(shape: &RigShape, script: &[Act], crash: &Crash<'_>) -> Result<(), String> {
    let done = crash.last_mark().map_or(0, |mark| mark as usize);
    let world = crash.world();
    let mut seen = Vec::new();
    {
        let rig = shape.open(&world)?;
        for block in 0..BLOCKS {
            let read = rig.read(block)?;
            let allowed = allowed(shape, script, done, block);
            let version = allowed.iter().copied().find(|version| block_of(*version) == read);
            let version = version.ok_or_else(|| {
                let found = (0..100).find(|version| block_of(*version) == read);
                format!("block {block} has version {found:?} after {done} acts, and not one of {allowed:?}")
            })?;
            seen.push(version);
        }
    }
    let check_again = |world: &World, when: &str| {
        let rig = shape.open(world).map_err(|error| format!("{when}: {error}"))?;
        for (block, version) in (0..).zip(&seen) {
            if rig.read(block).map_err(|error| format!("{when}: {error}"))? != block_of(*version) {
                return Err(format!("{when}: block {block} has not version {version} any more"));
            }
        }
        Ok(rig)
    };
    // Recovery is durable before the cache serves: a second crash loses nothing that was read.
    check_again(&world.crash(crash.seed() + 1), "after a second crash")?;
    let rig = check_again(&world, "opened again")?;
    // Evicting everything shows whether an older version comes back, and whether the disk has the newest.
    rig.clean();
    rig.cache.set(CacheSettings { policy: CachePolicy::Fifo, ..rig.cache.settings() }).map_err(|e| e.to_string())?;
    for round in 0..20 {
        (10..16).for_each(|block| rig.write(block, 200 + round));
        rig.settle();
    }
    (10..16).for_each(|block| rig.write(block, seen[block as usize]));
    for block in (0..BLOCKS).filter(|block| !(10..16).contains(block)) {
        if rig.read(block)? != block_of(seen[block as usize]) {
            return Err(format!("behind eviction: block {block} has not version {} any more", seen[block as usize]));
        }
    }
    rig.clean();
    drop(rig);
    let disk = world.disk(shape.ssds).snapshot();
    for (block, version) in seen.iter().enumerate() {
        let at = if shape.stamp == StampPlace::Head { crate::STAMP_BYTES as usize } else { 0 } + block * BLOCK as usize;
        if disk[at..at + BLOCK as usize] != block_of(*version) {
            return Err(format!("on the disk block {block} has not version {version}"));
        }
    }
    Ok(())
}

/// Returns options that try a few images of each point, and in a soak many.
pub(crate) fn options() -> ExploreOptions {
    ferrite_crash::options(16, rounds(6))
}

/// Returns options that try some deaths of the process, and in a soak all.
pub(crate) fn kill_options() -> ExploreOptions {
    let points = if rounds(0) == 0 { Points::Sampled(16) } else { Points::Widest };
    ExploreOptions { points, ..options() }
}

/// Runs `script` and records it.
fn recorded(shape: &RigShape, script: &[Act]) -> World {
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    world.memory().forget_trace();
    for (done, act) in (1..).zip(script) {
        apply(&rig, *act);
        world.memory().mark(done);
    }
    drop(rig);
    world
}

fn explored(shape: &RigShape, script: &[Act]) -> CrashReport {
    let world = recorded(shape, script);
    explore(world.memory(), &options(), |crash| judge(shape, script, crash))
}

fn shape(model: Model) -> RigShape {
    RigShape { model, ..RigShape::default() }
}

fn explore_all(model: Model) {
    for (name, script) in scripts() {
        let report = explored(&shape(model), &script);
        println!("{name}: {report}");
        report.assert_clean();
    }
}

#[test]
fn ca2_crash_loses_no_acknowledged_write() {
    explore_all(Model::MAPPED);
}

#[test]
fn ca2_crash_loses_no_flushed_write_if_fences_are_not_durable() {
    explore_all(Model::FILE);
}

#[test]
fn ca14_death_of_the_process_loses_nothing() {
    for (name, script) in scripts() {
        let shape = shape(Model::MAPPED);
        let world = recorded(&shape, &script);
        let report = explore_kills(world.memory(), &kill_options(), |crash| judge(&shape, &script, crash));
        println!("{name}: {report}");
        report.assert_clean();
    }
}

/// The script called `name` shows the bug.
fn assert_caught(bug: &'static str, name: &str) {
    assert_caught_by(Model::MAPPED, bug, name);
}

fn assert_caught_by(model: Model, bug: &'static str, name: &str) {
    let (_, script) = scripts().into_iter().find(|(known, _)| *known == name).expect("a script has the name");
    let _bug = plant(bug);
    explored(&shape(model), &script).expect_failure();
}

#[test]
fn canary_slot_acknowledged_before_its_fence_is_caught() {
    assert_caught("cache: a slot is acknowledged before its fence", "write and overwrite");
}

#[test]
fn canary_forgotten_dead_mark_is_caught() {
    assert_caught("cache: dead marks are forgotten", "overwrite a sealed block and seal again");
}

#[test]
fn canary_table_valid_before_the_marks_of_older_versions_is_caught() {
    assert_caught("cache: a table is valid before older versions are dead", "overwrite a sealed block and seal again");
}

#[test]
fn canary_last_version_that_dies_before_older_ones_is_caught() {
    assert_caught("cache: the last version dies before older ones", "around an overwritten block");
}

#[test]
fn canary_table_valid_before_the_ssds_flush_is_caught() {
    assert_caught("cache: a table is valid before the SSD's flush", "seal");
}

#[test]
fn canary_page_clean_before_the_disks_flush_is_caught() {
    assert_caught("cache: a page is clean before the disk's flush", "destage");
}

#[test]
fn canary_change_around_before_the_mark_is_caught() {
    assert_caught("cache: a change goes around before the mark is durable", "around a clean block");
}

#[test]
fn canary_change_around_a_pending_drop_is_caught() {
    assert_caught("cache: a change goes around a pending drop", "around a dropped block");
}

#[test]
fn canary_slot_that_is_destaged_before_it_is_durable_is_caught() {
    let bug = "cache: a slot is destaged before it is durable";
    assert_caught_by(Model::FILE, bug, "destage a slot over a clean block");
}

#[test]
fn canary_fill_that_trusts_writes_without_a_flush_is_caught() {
    assert_caught("cache: a fill trusts writes without a flush", "fill behind changes around");
}
