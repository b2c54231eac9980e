//! Every crash of what the tier does, of the pool and its SSD at one instant.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use ferrite_crash::{CrashReport, ExploreOptions, LyingDisk, Model, Points, World, explore};
use ferrite_disk::{Disk, Geometry};
use ferrite_pool::{Freeze, Pool};

use super::crash::{Case, at, judge_opened, mixed, put, usual, whole};
use super::support::{BOOT, NAME, POOL_BYTES, assert_sound, content, new_memory, options, resize, run_steps, tree};
use super::tiers::send_away;
use super::{Bug, plant};
use crate::file::{bring_in, write};
use crate::format::segment::{SEGMENT_BYTES, SEGMENTS_AT};
use crate::store::tier_members::{TierDisk, TierOpening};
use crate::tier::{clean_segments, evict};
use crate::{Allocate, FileSystem, FsOptions, Ino, Rename};

/// Segments of the SSD.
pub(super) const SEGMENTS: u64 = 6;

pub(super) fn geometry() -> Geometry {
    let base = LyingDisk::new(Geometry {
        size: SEGMENTS_AT + SEGMENTS * SEGMENT_BYTES,
        sector_bytes: 4096,
        atomic_bytes: 4096,
        preferred_bytes: 4096,
        volatile_cache: true,
        read_only: false,
        trim: true,
        identity: [0; 16],
    });
    base.geometry().clone()
}

pub(super) fn open(world: &World) -> crate::Result<Arc<FileSystem>> {
    open_with(world, options(None))
}

pub(super) fn open_with(world: &World, options: FsOptions) -> crate::Result<Arc<FileSystem>> {
    let pool = Pool::open(world.memory().clone(), BOOT)?.0;
    let opening = TierOpening { open: &|_| Ok(world.disk(0).clone()), nonce: 6 };
    FileSystem::open_tiered(Arc::new(pool), NAME, options, &opening)
}

pub(super) fn new_world(model: Model) -> World {
    let memory = new_memory(model, POOL_BYTES);
    let world = World::new(memory, [LyingDisk::new(geometry())]);
    let pool = Pool::open(world.memory().clone(), BOOT).expect("it opens").0;
    let ssd = TierDisk { uuid: [3; 16], address: "ssd".into(), disk: world.disk(0).clone() };
    FileSystem::add_tier(&pool, NAME, &[ssd], None, 5).expect("added");
    pool.close().expect("it closes");
    world
}

fn away(fs: &FileSystem) {
    usual(fs);
    fs.flush().expect("flushed");
    send_away(fs);
}

fn clean(fs: &FileSystem) {
    usual(fs);
    fs.flush().expect("flushed");
    fs.drain_tier().expect("drained");
}

/// Three segments with a few pages each.
fn sparse(fs: &FileSystem) {
    usual(fs);
    fs.flush().expect("flushed");
    send_away(fs);
    for byte in [4, 5] {
        put(fs, at(fs, "big"), 40_960 * u64::from(byte - 3), 12_288, byte);
        fs.flush().expect("flushed");
        send_away(fs);
    }
}

fn clean_sparse(fs: &FileSystem) {
    let slots = fs.slots.as_ref().expect("a tier");
    assert!(clean_segments::clean(fs, slots, &fs.tier).expect("nothing fails"), "none was cleaned");
}

static CASES: [Case; 21] = [
    whole("destage", usual, |fs| fs.drain_tier().expect("drained")),
    mixed("append to a page, and evict it", clean, |fs| {
        put(fs, at(fs, "a"), 4102, 100, 9);
        fs.flush().expect("flushed");
        send_away(fs);
    }),
    whole("evict", clean, send_away),
    mixed("overwrite of clean pages, and evict", clean, |fs| {
        put(fs, at(fs, "big"), 6000, 9000, 9);
        fs.flush().expect("flushed");
        send_away(fs);
    }),
    whole("clean", sparse, clean_sparse),
    whole("bring in", away, |fs| bring_in::bring_in_of(fs, at(fs, "big"), 5000..100_000).expect("brought in")),
    mixed("write over whole pages", away, |fs| put(fs, at(fs, "big"), 8192, 16_384, 9)),
    mixed("overwrite for a client", away, |fs| {
        write::overwrite(fs, at(fs, "big"), 6000, &[9; 20_000], || Ok(())).expect("room");
    }),
    mixed("write over parts of pages", away, |fs| put(fs, at(fs, "big"), 6000, 9000, 9)),
    mixed("append to a page that is away", away, |fs| put(fs, at(fs, "a"), 4102, 6000, 9)),
    whole("truncate in a page that is away", away, |fs| resize(fs, at(fs, "big"), 5000).expect("cut")),
    whole(
        "grow after a cut",
        |fs| {
            away(fs);
            resize(fs, at(fs, "big"), 5000).expect("cut");
            send_away(fs);
        },
        |fs| {
            resize(fs, at(fs, "big"), 90_000).expect("grown");
            let found = content(fs, at(fs, "big")).expect("it reads");
            assert!(found[5000..].iter().all(|byte| *byte == 0), "FT1: what was cut off came back");
        },
    ),
    mixed("punch", away, |fs| fs.allocate(at(fs, "big"), 5000..100_000, Allocate::Punch).expect("punched")),
    mixed("zero", away, |fs| fs.allocate(at(fs, "big"), 5000..30_000, Allocate::Zero).expect("zeroed")),
    whole("unlink", away, |fs| fs.unlink(Ino::ROOT, b"a").expect("it goes")),
    whole("unlink large", away, |fs| fs.unlink(Ino::ROOT, b"big").expect("it goes")),
    whole("rename over large", away, |fs| {
        fs.rename((Ino::ROOT, b"a"), (Ino::ROOT, b"big"), Rename::Replace).expect("it moves");
    }),
    whole(
        "step of an orphan",
        |fs| {
            away(fs);
            fs.unlink(Ino::ROOT, b"big").expect("it goes");
        },
        run_steps,
    ),
    mixed("segment behind a backup", away, |fs| {
        fs.shared.freeze();
        fs.shared.thaw();
        put(fs, at(fs, "big"), 0, 8192, 2);
        fs.flush().expect("flushed");
        send_away(fs);
    }),
    whole(
        "trim",
        |fs| {
            away(fs);
            // A segment with this file alone.
            put(fs, at(fs, "a"), 0, 4096, 7);
            fs.flush().expect("flushed");
            send_away(fs);
        },
        |fs| {
            fs.unlink(Ino::ROOT, b"a").expect("it goes");
            assert!(fs.trim_tier(&mut |_| true).expect("trimmed") > 0);
        },
    ),
    mixed("reuse of a segment", away, |fs| {
        // More than the SSD has room for beside what was there.
        for round in 0..SEGMENTS as u8 {
            put(fs, at(fs, "big"), 0, 30 * 4096, 2);
            fs.flush().expect("flushed");
            send_away(fs);
            _ = round;
        }
    }),
];

fn explore_case(case: &Case, model: Model) -> CrashReport {
    explore_failing(case, model, u64::MAX)
}

/// Explores a case in which request `failing` to the SSD fails, counted from its start.
fn explore_failing(case: &Case, model: Model, failing: u64) -> CrashReport {
    let world = new_world(model);
    let fs = open(&world).expect("it opens");
    (case.setup)(&fs);
    fs.flush().expect("nothing fails");
    // A read would bring in what is away, so another process reads it.
    let before = tree(&open(&world.kill(1)).expect("it opens")).expect("it reads");
    world.memory().forget_trace();
    world.disk(0).fail_nth(world.disk(0).requests().saturating_add(failing));
    (case.run)(&fs);
    if fs.waits() {
        fs.flush().expect("nothing fails");
    }
    world.memory().mark(1);
    world.disk(0).fail_nth(u64::MAX);
    let after = tree(&fs).expect("it reads");
    let images = if case.mixes { 24 } else { 8 };
    let options = ExploreOptions {
        images_per_point_max: images,
        samples_per_point: images,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(world.memory(), &options, |crash| {
        let world = crash.world();
        let fs = open(&world).map_err(|error| error.to_string())?;
        judge_opened(&fs, crash.last_mark().is_some(), (&before, &after), case.mixes)
    })
}

/// A crash forgets shadows, marks and cursors (TI6).
#[test]
fn ti_every_crash_of_what_the_tier_does_is_before_or_after_it() {
    for model in [Model::MAPPED, Model::FILE] {
        for case in &CASES {
            println!("{} on {model:?}", case.name);
            let report = explore_case(case, model);
            println!("{report:?}");
            report.assert_clean();
        }
    }
}

/// TI12: a request that fails leaves pages dirty, and a crash behind it loses nothing.
#[test]
fn ti12_every_crash_behind_a_failed_request_loses_nothing() {
    let case = whole("destage beside a failure", usual, |fs| {
        let _ = fs.drain_tier();
        send_away(fs);
    });
    for failing in 0..4 {
        explore_failing(&case, Model::MAPPED, failing).assert_clean();
    }
}

fn is_found(bug: Bug, name: &str) -> bool {
    let case = CASES.iter().find(|case| case.name == name).expect("there is such a case");
    plant(Some(bug));
    // Some bugs show before any crash.
    let explored = catch_unwind(AssertUnwindSafe(|| explore_case(case, Model::MAPPED)));
    plant(None);
    explored.is_err() || explored.is_ok_and(|report| report.failure.is_some())
}

#[test]
fn canary_planted_bugs_of_the_tier_are_found() {
    for (bug, name) in [
        (Bug::UnflushedSegment, "reuse of a segment"),
        (Bug::UnmarkedSlot, "evict"),
        (Bug::StoredPage, "overwrite of clean pages, and evict"),
        (Bug::NameBeforeBytes, "bring in"),
        (Bug::WordBeforeData, "overwrite for a client"),
        (Bug::HastyTrim, "trim"),
        (Bug::ReusedSegment, "reuse of a segment"),
        (Bug::ShadowForName, "evict"),
    ] {
        assert!(is_found(bug, name), "{bug:?} was not found by {name:?}");
    }
}

/// TI13: a crash while a tier is made leaves a file system with it or without it.
#[test]
fn ti13_every_crash_of_a_new_tier_leaves_it_whole_or_none() {
    for model in [Model::MAPPED, Model::FILE] {
        let report = explore_new_tier(model);
        println!("{report:?}");
        report.assert_clean();
    }
}

fn explore_new_tier(model: Model) -> CrashReport {
    let world = World::new(new_memory(model, POOL_BYTES), [LyingDisk::new(geometry())]);
    let pool = Pool::open(world.memory().clone(), BOOT).expect("it opens").0;
    world.memory().forget_trace();
    let ssd = TierDisk { uuid: [3; 16], address: "ssd".into(), disk: world.disk(0).clone() };
    FileSystem::add_tier(&pool, NAME, &[ssd], None, 5).expect("added");
    world.memory().mark(1);
    let options = ExploreOptions {
        images_per_point_max: 6,
        samples_per_point: 6,
        points: Points::Widest,
        ..ExploreOptions::default()
    };
    explore(world.memory(), &options, |crash| {
        let world = crash.world();
        let fs = open(&world).map_err(|error| error.to_string())?;
        usual(&fs);
        fs.drain_tier().map_err(|error| error.to_string())?;
        let (has_tier, members) = (fs.slots.is_some(), fs.pool().members().expect("read").len());
        match (has_tier, members) {
            (true, 1) => Ok(()),
            (false, 0) if crash.last_mark().is_none() => Ok(()),
            found => Err(format!("{found:?}")),
        }
    })
}

#[test]
fn canary_an_ssd_that_is_no_member_is_found() {
    plant(Some(Bug::StrangeSsd));
    let found = catch_unwind(AssertUnwindSafe(|| explore_new_tier(Model::MAPPED)));
    plant(None);
    assert!(found.is_err() || found.is_ok_and(|report| report.failure.is_some()));
}

/// A request of the SSD that fails, whichever it is, loses nothing: pages stay in the pool, or a read fails once.
#[test]
fn ti12_sweep_of_failing_requests_of_the_ssd_loses_nothing() {
    for number in 0..12 {
        let world = new_world(Model::MAPPED);
        let fs = open(&world).expect("it opens");
        usual(&fs);
        let want = content(&fs, at(&fs, "big")).expect("read");
        world.disk(0).fail_nth(world.disk(0).requests() + number);
        let slots = fs.slots.as_ref().expect("a tier");
        for round in 0..3 {
            // What fails is tried again.
            let _ = fs.drain_tier();
            _ = evict::evict(&fs, slots, &fs.tier).expect("it needs no SSD");
            match content(&fs, at(&fs, "big")) {
                Ok(read) => assert!(read == want, "request {number}, round {round}"),
                Err(error) => assert!(error.to_string().contains("ssd at byte"), "{error}"),
            }
            put(&fs, at(&fs, "big"), 0, 0, 0);
        }
        assert!(content(&fs, at(&fs, "big")).expect("it reads by now") == want, "request {number}");
        assert!(slots.failures.why().is_none(), "one failure is not the end");
        assert_sound(&fs);
    }
}
