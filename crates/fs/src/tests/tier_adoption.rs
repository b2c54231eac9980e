//! Every crash of a pool that takes an SSD which a later life of it has used.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingDisk, LyingMemory, Model, Points, World, explore};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_memory::{Memory, Scheme};
use ferrite_pool::Pool;

use super::crash::{at, put, usual};
use super::support::{BOOT, NAME, POOL_BYTES, new_memory, options};
use super::tiers::send_away;
use super::{Bug, plant};
use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT, SegmentNo};
use crate::store::tier_members::{TierDisk, TierOpening};
use crate::{AdoptedSsds, FileSystem, adopt_ssds};

const DISK_BYTES: u64 = SEGMENTS_AT + 4 * SEGMENT_BYTES;

fn disk() -> LyingDisk {
    LyingDisk::new(Geometry {
        size: DISK_BYTES,
        sector_bytes: 4096,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    })
}

fn pool(world: &World) -> Arc<Pool> {
    Arc::new(Pool::open(world.memory().clone(), BOOT).expect("it opens").0)
}

fn open(world: &World, nonce: u16) -> crate::Result<Arc<FileSystem>> {
    let open = |_: &str| Ok(world.disk(0).clone() as Arc<dyn Disk>);
    FileSystem::open_tiered(pool(world), NAME, options(None), &TierOpening { open: &open, nonce })
}

fn adopt(world: &World, lose: Option<u64>) -> AdoptedSsds {
    let open = |_: &str| Ok(world.disk(0).clone() as Arc<dyn Disk>);
    let opening = TierOpening { open: &open, nonce: 9 };
    adopt_ssds(&pool(world), NAME, options(None), &opening, lose, &mut |_| true).expect("it compares")
}

/// Changes a file, and writes segments with it.
fn write_away(fs: &FileSystem, seed: u8) {
    put(fs, at(fs, "big"), 0, 30 * 4096, seed);
    fs.flush().expect("flushed");
    send_away(fs);
}

/// Returns a pool as an image had it, and its SSD as a later life left it.
fn later_ssd(model: Model) -> World {
    let world = World::new(new_memory(model, POOL_BYTES), [disk()]);
    let first = TierDisk { uuid: [3; 16], address: "ssd".into(), disk: world.disk(0).clone() };
    FileSystem::add_tier(&pool(&world), NAME, &[first], None, 5).expect("added");
    let fs = open(&world, 6).expect("it opens");
    usual(&fs);
    fs.flush().expect("flushed");
    send_away(&fs);
    write_away(&fs, 1);
    drop(fs);
    let mut image = vec![0; POOL_BYTES as usize];
    world.memory().load(0, &mut image);
    for life in 7..9 {
        let fs = open(&world, life).expect("it opens");
        (2..8).for_each(|seed| write_away(&fs, seed + life as u8));
    }
    let memory = LyingMemory::new(POOL_BYTES, model);
    memory.store(0, &image, Scheme::Nt);
    memory.drain().expect("durable");
    let (copy, mut bytes) = (disk(), vec![0; DISK_BYTES as usize]);
    world.disk(0).read(0, &mut bytes).expect("read");
    copy.write(0, &bytes, Access::Cached).expect("written");
    copy.flush().expect("flushed");
    World::new(memory, [copy])
}

/// Refuses segments that words name, that were overwritten, and that the table does not list so.
fn judge(world: &World) -> Result<(), String> {
    let fs = match open(world, 10) {
        Ok(fs) => fs,
        // The adoption can be made again.
        Err(why) if why.to_string().contains("later life") => return Ok(()),
        Err(why) => return Err(why.to_string()),
    };
    let slots = fs.slots.as_ref().expect("a tier");
    let set = slots.set();
    for segment in (0..set.end()).map(SegmentNo) {
        let state = set.state(segment);
        if state.named() > 0 && !state.is_overwritten() && slots.read_segment(segment).is_err() {
            return Err(format!("segment {} was overwritten, and is believed", segment.0));
        }
    }
    Ok(())
}

fn explore_adoption(model: Model) -> CrashReport {
    let world = later_ssd(model);
    let found = adopt(&world, None);
    assert!(!found.is_adopted && found.lost_bytes > 0 && !found.files.is_empty(), "{found:?}");
    world.memory().forget_trace();
    assert!(adopt(&world, Some(found.lost_bytes)).is_adopted);
    let options = ExploreOptions {
        images_per_point_max: 4,
        samples_per_point: 4,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(world.memory(), &options, |crash| judge(&crash.world()))
}

#[test]
fn ti18_every_crash_of_an_adoption_knows_what_was_overwritten() {
    for model in [Model::MAPPED, Model::FILE] {
        let report = explore_adoption(model);
        println!("{model:?}: {report:?}");
        report.assert_clean();
    }
}

#[test]
fn canary_an_ssd_of_a_later_life_that_is_believed_is_found() {
    plant(Some(Bug::UnnotedLife));
    let explored = catch_unwind(AssertUnwindSafe(|| explore_adoption(Model::MAPPED)));
    plant(None);
    assert!(explored.is_ok_and(|report| report.failure.is_some()), "the bug was not found");
}
