//! Backups of a pool beside what its SSDs do meanwhile: each crash of them, with the image that the backup has.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingDisk, LyingMemory, Model, Points, World, explore};
use ferrite_disk::Disk;

use super::crash::{at, put, usual};
use super::support::{Tree, run_steps, tree};
use super::tier_crashes::{SEGMENTS, geometry, new_world, open};
use super::tiers::send_away;
use super::{Bug, plant};
use crate::format::segment::SEGMENT_BYTES;
use crate::tier::clean_segments;
use crate::{FileSystem, Ino};
use ferrite_pool::Freeze;

const OPTIONS: ExploreOptions =
    ExploreOptions { seed: 1, images_per_point_max: 4, samples_per_point: 4, points: Points::Widest, only: None };

/// A file system whose pages are away, and what a backup of its pool has.
struct CopiedPool {
    world: World,
    fs: Arc<FileSystem>,
    image: LyingMemory,
    tree: Tree,
}

impl CopiedPool {
    /// `before` runs before the pool is frozen.
    fn new(model: Model, before: impl FnOnce(&Arc<FileSystem>)) -> Self {
        let world = new_world(model);
        let fs = open(&world).expect("it opens");
        usual(&fs);
        fs.flush().expect("flushed");
        send_away(&fs);
        before(&fs);
        fs.freeze();
        let image = world.memory().kill();
        fs.thaw();
        let copy = World::new(image.kill(), [LyingDisk::from_image(geometry(), &world.disk(0).snapshot())]);
        let tree = tree(&open(&copy).expect("it opens")).expect("it reads");
        world.memory().forget_trace();
        Self { world, fs, image, tree }
    }

    /// Opens the image with `disk`. Returns an error if the files are other ones.
    fn judge(&self, disk: LyingDisk) -> crate::Result<Result<(), String>> {
        let fs = open(&World::new(self.image.kill(), [disk]))?;
        Ok(match tree(&fs) {
            Ok(found) if found == self.tree => Ok(()),
            Ok(_) => Err("the image opens with other files".into()),
            Err(why) => Err(why.to_string()),
        })
    }
}

/// Removes and overwrites files until each segment was written again, and trims.
fn reuse_segments(fs: &FileSystem) {
    fs.unlink(Ino::ROOT, b"a").expect("it goes");
    run_steps(fs);
    for byte in 3..3 + SEGMENTS as u8 {
        put(fs, at(fs, "big"), 0, 30 * 4096, byte);
        fs.flush().expect("flushed");
        send_away(fs);
    }
    let slots = fs.slots.as_ref().expect("a tier");
    _ = clean_segments::clean(fs, slots, &fs.tier).expect("nothing fails");
    fs.trim_tier(&mut |_| true).expect("trimmed");
}

/// Explores the work of an SSD behind a backup of the pool alone.
fn explore_going_on(model: Model) -> CrashReport {
    let copied = CopiedPool::new(model, |_| ());
    reuse_segments(&copied.fs);
    explore(copied.world.memory(), &OPTIONS, |crash| match copied.judge(crash.disk(0)) {
        Ok(judged) => judged,
        Err(why) if why.to_string().contains("later life of this pool") => Ok(()),
        Err(why) => Err(why.to_string()),
    })
}

/// TI11: after each crash the image of a backup opens with all of its files, or is refused.
#[test]
fn ti11_every_crash_behind_a_backup_leaves_it_good_or_refused() {
    for model in [Model::MAPPED, Model::FILE] {
        explore_going_on(model).assert_clean();
    }
}

/// Explores the work of an SSD while a backup copies the pool and the SSD. A crash stands for a moment at which the
/// backup reads the held segments.
fn explore_hold(model: Model) -> CrashReport {
    let mut hold = None;
    let copied = CopiedPool::new(model, |fs| hold = fs.hold_tier().expect("it has a tier"));
    let hold = hold.expect("it has a tier");
    let mut parts: Vec<(u64, Vec<u8>)> = Vec::new();
    let mut add = |at, bytes: &[u8]| {
        parts.push((at, bytes.to_vec()));
        Ok(())
    };
    hold.copy(0, &mut add).expect("copied");
    assert_eq!(hold.ssds().expect("held")[0].1, (parts.len() as u64 - 1) * SEGMENT_BYTES);
    reuse_segments(&copied.fs);
    explore(copied.world.memory(), &OPTIONS, |crash| {
        let found = crash.disk(0);
        let mut ssd = vec![0; geometry().size as usize];
        for (at, bytes) in &parts {
            let into = &mut ssd[*at as usize..][..bytes.len()];
            // The freeze has read the stamp already.
            if *at == 0 { into.copy_from_slice(bytes) } else { found.read(*at, into).map_err(|why| why.to_string())? }
        }
        copied.judge(LyingDisk::from_image(geometry(), &ssd)).map_err(|why| why.to_string())?
    })
}

/// TI22: at each moment, the held segments are those of the image.
#[test]
fn ti22_a_backup_of_the_ssd_is_whole_whenever_a_segment_is_read() {
    for model in [Model::MAPPED, Model::FILE] {
        explore_hold(model).assert_clean();
    }
}

#[test]
fn canary_planted_bugs_of_backups_are_found() {
    type Exploration = fn(Model) -> CrashReport;
    for (bug, explore) in [(Bug::CopiedPool, explore_going_on as Exploration), (Bug::UnheldSegment, explore_hold)] {
        plant(Some(bug));
        let explored = catch_unwind(AssertUnwindSafe(|| explore(Model::MAPPED)));
        plant(None);
        assert!(explored.is_err() || explored.is_ok_and(|report| report.failure.is_some()), "{bug:?} was not found");
    }
}

/// TI22: no SSD leaves while a backup copies it, and held segments are used again when the backup ends.
#[test]
fn ti22_a_hold_keeps_ssds_and_ends() {
    let world = new_world(Model::MAPPED);
    let fs = open(&world).expect("it opens");
    usual(&fs);
    fs.flush().expect("flushed");
    send_away(&fs);
    for page in 1..4 {
        put(&fs, at(&fs, "big"), page * 4096, 4096, 9);
        fs.flush().expect("flushed");
        send_away(&fs);
    }
    let free = || fs.tier_stats().expect("a tier").segments.free;
    let before = free();
    let sparse = || fs.slots.as_ref().expect("a tier").sparse(u64::MAX).len();
    assert!(sparse() > 0, "cleaning would gain a segment");
    let hold = fs.hold_tier().expect("a tier").expect("a tier");
    fs.freeze();
    fs.thaw();
    assert_eq!(sparse(), 0, "cleaning a held segment makes none free");
    let refused = fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect_err("it is copied").to_string();
    assert!(refused.contains("a backup copies the SSDs"), "{refused}");
    assert!(fs.hold_tier().is_err(), "one backup at a time");
    for name in [&b"a"[..], b"big"] {
        fs.unlink(Ino::ROOT, name).expect("it goes");
    }
    run_steps(&fs);
    assert_eq!(free(), before, "nothing names the segments, and they are held");
    drop(hold);
    assert_eq!(free(), SEGMENTS);
    fs.tier_upkeep().remove_ssd("ssd", &mut |_| true).expect("removed");
}
