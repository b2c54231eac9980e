//! Every crash of SSDs that join a file system or leave it, of the pool and both SSDs at one instant.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingDisk, Model, Points, World, explore};
use ferrite_disk::{Access, Disk, Geometry};
use ferrite_pool::Pool;

use super::crash::{at, judge_opened, put, usual};
use super::support::{BOOT, NAME, POOL_BYTES, new_memory, options, tree};
use super::tiers::send_away;
use super::{Bug, plant};
use crate::FileSystem;
use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT};
use crate::store::tier_members::{TierDisk, TierOpening};

/// Bytes of the first SSD before it grows.
const FIRST_BYTES: u64 = SEGMENTS_AT + 4 * SEGMENT_BYTES;

fn disk(segments: u64) -> LyingDisk {
    LyingDisk::new(Geometry {
        size: SEGMENTS_AT + segments * SEGMENT_BYTES,
        sector_bytes: 4096,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    })
}

/// Returns SSD `number` of `world`, which has its number as its address.
fn ssd(world: &World, number: usize) -> TierDisk {
    TierDisk { uuid: [3 + number as u8; 16], address: number.to_string(), disk: world.disk(number).clone() }
}

fn open(world: &World) -> crate::Result<Arc<FileSystem>> {
    let pool = Pool::open(world.memory().clone(), BOOT)?.0;
    let disk = |address: &str| Ok(ssd(world, usize::from(address == "1")).disk);
    FileSystem::open_tiered(Arc::new(pool), NAME, options(None), &TierOpening { open: &disk, nonce: 6 })
}

/// What happens to the SSDs of a file system that has the first of two, with content on it.
struct MemberCase {
    name: &'static str,
    /// It has both.
    has_both: bool,
    run: fn(&FileSystem, &World),
    /// Brings what a crash left to its end, and says which members the pool has then.
    end: fn(&FileSystem, &World) -> usize,
}

fn remove(fs: &FileSystem, address: &str) {
    let is_there = fs.tier().is_some_and(|tier| tier.ssds.iter().any(|ssd| ssd.address == address));
    if is_there {
        fs.tier_upkeep().remove_ssd(address, &mut |_| true).expect("removed");
    }
}

/// The first SSD before it grew.
struct SmallDisk(Arc<dyn Disk>);

impl Disk for SmallDisk {
    fn geometry(&self) -> Geometry {
        Geometry { size: FIRST_BYTES, ..self.0.geometry() }
    }

    fn read(&self, at: u64, into: &mut [u8]) -> ferrite_memory::Result<()> {
        self.0.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> ferrite_memory::Result<()> {
        self.0.write(at, from, access)
    }

    fn flush(&self) -> ferrite_memory::Result<()> {
        self.0.flush()
    }
}

static CASES: [MemberCase; 4] = [
    MemberCase {
        name: "add",
        has_both: false,
        run: |fs, world| {
            fs.tier_upkeep().add_ssds(&[ssd(world, 1)], None, 7).expect("added");
            put(fs, at(fs, "big"), 0, 30 * 4096, 2);
            fs.flush().expect("flushed");
            send_away(fs);
        },
        end: |fs, _| fs.tier().expect("a tier").ssds.len(),
    },
    MemberCase {
        name: "remove the first",
        has_both: true,
        run: |fs, _| remove(fs, "0"),
        end: |fs, _| {
            remove(fs, "0");
            1
        },
    },
    MemberCase {
        name: "remove the last",
        has_both: false,
        run: |fs, _| remove(fs, "0"),
        end: |fs, _| {
            remove(fs, "0");
            0
        },
    },
    MemberCase {
        name: "grow",
        has_both: false,
        run: |fs, world| {
            fs.tier_upkeep().grow_ssd("0", &ssd(world, 0).disk, 7).expect("grown");
            // Each part keeps a segment in use, and the first ones are too few.
            for part in 0..5 {
                put(fs, at(fs, "big"), part * 5 * 4096, 5 * 4096, 2);
                fs.flush().expect("flushed");
                send_away(fs);
                // Segments that were written before are taken first.
                fs.trim_tier(&mut |_| true).expect("trimmed");
            }
        },
        end: |_, _| 1,
    },
];

fn explore_members(case: &MemberCase, model: Model) -> CrashReport {
    let world = World::new(new_memory(model, POOL_BYTES), [disk(6), disk(4)]);
    let pool = Pool::open(world.memory().clone(), BOOT).expect("it opens").0;
    let small = TierDisk { disk: Arc::new(SmallDisk(ssd(&world, 0).disk)), ..ssd(&world, 0) };
    FileSystem::add_tier(&pool, NAME, &[small], None, 5).expect("added");
    pool.close().expect("it closes");
    let fs = open(&world).expect("it opens");
    usual(&fs);
    fs.flush().expect("flushed");
    send_away(&fs);
    if case.has_both {
        fs.tier_upkeep().add_ssds(&[ssd(&world, 1)], None, 7).expect("added");
    }
    fs.flush().expect("flushed");
    // A read would bring in what is away, so another process reads it.
    let before = tree(&open(&world.kill(1)).expect("it opens")).expect("it reads");
    world.memory().forget_trace();
    (case.run)(&fs, &world);
    fs.flush().expect("flushed");
    world.memory().mark(1);
    let after = tree(&fs).expect("it reads");
    let options = ExploreOptions {
        images_per_point_max: 4,
        samples_per_point: 4,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(world.memory(), &options, |crash| {
        let world = crash.world();
        let fs = open(&world).map_err(|error| error.to_string())?;
        judge_opened(&fs, crash.last_mark().is_some(), (&before, &after), true)?;
        let wanted = (case.end)(&fs, &world);
        judge_opened(&fs, crash.last_mark().is_some(), (&before, &after), true)?;
        drop(fs);
        let fs = open(&world).map_err(|error| error.to_string())?;
        let members = fs.pool().members().map_err(|error| error.to_string())?.len();
        if members != wanted || fs.tier().is_some() != (wanted > 0) {
            return Err(format!("{members} members of the pool, and {wanted} SSDs"));
        }
        judge_opened(&fs, crash.last_mark().is_some(), (&before, &after), true)
    })
}

/// TI15, TI16, TI17: an SSD joins, leaves or grows.
#[test]
fn ti15_ti16_every_crash_of_a_change_of_ssds_loses_nothing() {
    for model in [Model::MAPPED, Model::FILE] {
        for case in &CASES {
            println!("{} on {model:?}", case.name);
            let report = explore_members(case, model);
            println!("{report:?}");
            report.assert_clean();
        }
    }
}

/// Returns true if the crashes of the case called `name` show `bug`.
fn is_found(bug: Bug, name: &str) -> bool {
    let case = CASES.iter().find(|case| case.name == name).expect("there is such a case");
    plant(Some(bug));
    let explored = catch_unwind(AssertUnwindSafe(|| explore_members(case, Model::MAPPED)));
    plant(None);
    explored.is_err() || explored.is_ok_and(|report| report.failure.is_some())
}

#[test]
fn canary_ssds_that_join_or_leave_too_soon_are_found() {
    assert!(is_found(Bug::EarlyUse, "add") && is_found(Bug::EarlyForget, "remove the first"));
}

#[test]
fn canary_growth_that_the_table_does_not_list_is_found() {
    assert!(is_found(Bug::UnlistedGrowth, "grow"));
}
