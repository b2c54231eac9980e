//! Programs that persist ranges of their DRAM: every crash, disks that fail, threads that wait, and the planted bugs that
//! these find.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use ferrite_crash::{Crash, CrashReport, ExploreOptions, Model, Points, World, explore, explore_kills};
use ferrite_disk::Disk;
use ferrite_memory::Span;
use ferrite_memory::planted::plant;
use ferrite_pool::layout::PAGE;
use parking_lot::Mutex;

use super::guest_rig::{GuestShape, space, value_of};
use super::seeded::TestChoices;
use crate::guest_tie::GuestIdentity;
use crate::persist_ranges::{PersistRanges, ProgramBytes};
use crate::{DirectPlane, GuestEngine, GuestError};

/// A program's DRAM. A crash loses it.
struct RigDram {
    bytes: Mutex<Vec<u8>>,
    /// Waited for by each copy, if it is given.
    pause: Mutex<Option<Receiver<()>>>,
}

impl ProgramBytes for RigDram {
    fn copy_out(&self, at: u64, into: &mut [u8]) {
        if let Some(pause) = &*self.pause.lock() {
            pause.recv().expect("released");
        }
        into.copy_from_slice(&self.bytes.lock()[at as usize..][..into.len()]);
    }

    fn is_touched(&self, _at: u64) -> bool {
        true
    }
}

struct ParaRig {
    engine: GuestEngine,
    ranges: PersistRanges,
    dram: RigDram,
    world: World,
}

impl ParaRig {
    fn open(shape: GuestShape, world: World) -> Self {
        let identity = GuestIdentity { pool: [1; 16], tag: 5, name: "g".into() };
        let disk = Arc::clone(world.disk(0)) as Arc<dyn Disk>;
        let space = space(Arc::clone(world.memory()), shape);
        let engine = GuestEngine::new(space, disk, Box::new(DirectPlane), identity, || 7).expect("it opens");
        engine.advance_tie().expect("nothing fails");
        let mut bytes = vec![0; engine.size() as usize];
        engine.read(0, &mut bytes).expect("read");
        let dram = RigDram { bytes: Mutex::new(bytes), pause: Mutex::default() };
        Self { ranges: PersistRanges::new(engine.size()), engine, dram, world }
    }

    fn store(&self, at: u64, from: &[u8]) {
        self.dram.bytes.lock()[at as usize..][..from.len()].copy_from_slice(from);
    }

    /// Stores a version to the first word of `page`, and a word behind it that is never persisted.
    fn put(&self, page: u64, version: u64) {
        self.store(page * PAGE, &value_of(page, version).to_le_bytes());
        self.store(page * PAGE + 8, &[0xbb; 8]);
        self.ranges.persist(Span::new(page * PAGE, 8)).expect("within the guest");
    }

    fn barrier(&self) -> Result<(), GuestError> {
        self.ranges.barrier(&self.engine, &self.dram)
    }

    /// Ends an epoch: what was put before is durable.
    fn end_epoch(&self, put: &[(u64, u64)]) {
        put.iter().for_each(|(page, version)| self.put(*page, *version));
        self.barrier().expect("nothing fails");
        put.iter().for_each(|(page, version)| self.world.memory().mark(value_of(*page, *version)));
    }

    fn word(&self, at: u64) -> u64 {
        let mut bytes = [0; PAGE as usize];
        self.engine.read(at / PAGE * PAGE, &mut bytes).expect("read");
        u64::from_le_bytes(*bytes[(at % PAGE) as usize..].first_chunk().expect("a word"))
    }
}

/// Checks that each page has a version of its own that is no older than acknowledged, and nothing else.
fn check_crash(shape: GuestShape, crash: &Crash<'_>) -> Result<(), String> {
    let rig = ParaRig::open(shape, crash.world());
    let bytes = rig.dram.bytes.lock();
    for (page, bytes) in bytes.chunks(PAGE as usize).enumerate() {
        let value = u64::from_le_bytes(*bytes.first_chunk().expect("a page"));
        if value >> 32 != page as u64 + 1 || bytes[8..].iter().any(|byte| *byte != 0) {
            return Err(format!("page {page} has bytes that were not persisted, or not its own: {value:x}"));
        }
        for mark in crash.marks().iter().filter(|mark| *mark >> 32 == value >> 32) {
            if value < *mark {
                return Err(format!("page {page} has {value:x}, and {mark:x} was durable"));
            }
        }
    }
    Ok(())
}

fn shape(model: Model) -> GuestShape {
    GuestShape { model, ..GuestShape::default() }
}

/// Three epochs over more pages than there are frames.
fn epochs(rig: &ParaRig) {
    rig.end_epoch(&[(0, 1), (1, 1)]);
    rig.end_epoch(&[(0, 2), (2, 1), (3, 1)]);
    rig.end_epoch(&[(4, 1), (1, 2), (5, 1)]);
    assert!(rig.engine.counts().demoted_pages > 0);
}

fn recorded(model: Model, run: impl FnOnce(&ParaRig)) -> ParaRig {
    let rig = ParaRig::open(shape(model), shape(model).world());
    rig.world.memory().forget_trace();
    run(&rig);
    rig
}

fn explored(model: Model, run: impl FnOnce(&ParaRig)) -> CrashReport {
    let rig = recorded(model, run);
    let options = ExploreOptions { points: Points::Widest, ..ExploreOptions::default() };
    explore(rig.world.memory(), &options, |crash| check_crash(shape(model), crash))
}

/// PV1, PV2: whatever a crash keeps, each barrier's ranges are there, and no byte that was not persisted is.
#[test]
fn pv1_pv2_a_crash_keeps_what_barriers_made_durable() {
    for model in Model::ALL {
        explored(model, epochs).assert_clean().assert_exhaustive();
    }
}

#[test]
fn pv1_pv2_a_kill_keeps_what_barriers_made_durable() {
    for model in Model::ALL {
        let rig = recorded(model, epochs);
        let options = ExploreOptions { points: Points::Widest, ..ExploreOptions::default() };
        explore_kills(rig.world.memory(), &options, |crash| check_crash(shape(model), crash))
            .assert_clean()
            .assert_exhaustive();
    }
}

/// Returns true if a crash on any kind of memory shows the planted bug.
fn is_caught(bug: &'static str) -> bool {
    let _planted = plant(bug);
    Model::ALL.into_iter().any(|model| explored(model, |rig| rig.end_epoch(&[(0, 1), (1, 1)])).failure.is_some())
}

#[test]
fn canary_pv1_a_barrier_that_does_not_flush_is_caught() {
    assert!(is_caught("guest: a barrier does not flush"));
}

#[test]
fn canary_pv2_whole_pages_that_are_copied_are_caught() {
    assert!(is_caught("guest: whole pages are copied"));
}

/// Stores and persists random ranges, against an array of bytes that has what barriers made durable.
#[test]
fn pv1_pv2_model_of_ranges_that_meet_and_overlap() {
    let shape = GuestShape { frames: 16, pages: 40, ..GuestShape::default() };
    let world = shape.world();
    world.memory().keep_trace(false);
    let rig = ParaRig::open(shape, world);
    let size = rig.engine.size();
    let (mut choices, mut durable) = (TestChoices(7), rig.dram.bytes.lock().clone());
    for round in 0..60u8 {
        let mut persisted = vec![false; size as usize];
        for number in 0..30 {
            let at = choices.below(size);
            let len = (1 + choices.below(if number % 7 == 0 { 30_000 } else { 90 })).min(size - at);
            rig.store(at, &vec![round + 1; len as usize]);
            if choices.below(3) > 0 {
                let span = Span::new(at, len);
                rig.ranges.persist(span).expect("within the guest");
                persisted[at as usize..(at + len) as usize].fill(true);
            }
        }
        let waiting = rig.ranges.waiting();
        assert!(waiting.windows(2).all(|two| two[0].at + two[0].len < two[1].at), "{waiting:?}");
        assert_eq!(waiting.iter().map(|span| span.len).sum::<u64>(), persisted.iter().filter(|is| **is).count() as u64);
        rig.barrier().expect("nothing fails");
        let dram = rig.dram.bytes.lock();
        (0..size as usize).filter(|at| persisted[*at]).for_each(|at| durable[at] = dram[at]);
        drop(dram);
        let mut truth = vec![0; size as usize];
        rig.engine.read(0, &mut truth).expect("read");
        assert!(truth == durable, "round {round}");
    }
    assert!(rig.engine.counts().demoted_pages > 0);
}

/// Fails each request of the disk in turn. Returns false if a barrier behind a failed one misses a range.
fn keeps_failed_ranges() -> bool {
    for failing in 0.. {
        let rig = ParaRig::open(GuestShape::default(), GuestShape::default().world());
        let before = rig.world.disk(0).requests();
        rig.world.disk(0).fail_nth(before + failing);
        (0..8).for_each(|page| rig.put(page, 1));
        let has_failed = rig.barrier().is_err();
        rig.world.disk(0).fail_nth(u64::MAX);
        rig.barrier().expect("it failed once");
        if (0..8).any(|page| rig.word(page * PAGE) != value_of(page, 1)) {
            return false;
        }
        if !has_failed {
            assert!(failing > 8, "the sweep ends after the last request");
            break;
        }
    }
    true
}

#[test]
fn pv3_sweep_of_failing_requests_keeps_the_ranges() {
    assert!(keeps_failed_ranges());
}

#[test]
fn canary_pv3_ranges_that_a_failed_barrier_forgets_are_caught() {
    let _planted = plant("guest: a failed barrier forgets its ranges");
    assert!(!keeps_failed_ranges());
}

/// Begins a barrier that pauses, and a second one, whose thread has the bug `planted`. Returns true if that returned
/// before the first one's range was copied.
fn second_barrier_overtakes(planted: Option<&'static str>, patience: Duration) -> bool {
    let rig = ParaRig::open(GuestShape::default(), GuestShape::default().world());
    let (release, pause) = channel();
    *rig.dram.pause.lock() = Some(pause);
    rig.put(1, 1);
    let (done, returned) = channel();
    std::thread::scope(|scope| {
        let rig = &rig;
        scope.spawn(|| rig.barrier().expect("nothing fails"));
        while !rig.ranges.waiting().is_empty() {
            std::thread::yield_now();
        }
        scope.spawn(move || {
            let _bug = planted.map(plant);
            rig.barrier().expect("nothing fails");
            done.send(rig.word(PAGE)).expect("heard");
        });
        let early = returned.recv_timeout(patience).ok();
        release.send(()).expect("waited for");
        early.or_else(|| returned.recv().ok()) != Some(value_of(1, 1))
    })
}

#[test]
fn pv4_a_barrier_waits_for_the_ranges_of_another() {
    assert!(!second_barrier_overtakes(None, Duration::from_millis(50)));
}

/// Stores to two words under a lock while a barrier runs in another thread, which has the bug `planted`. Returns true if
/// the barrier copied between them.
fn locked_bytes_are_copied(planted: Option<&'static str>, patience: Duration) -> bool {
    let rig = ParaRig::open(GuestShape::default(), GuestShape::default().world());
    let span = Span::new(PAGE, 16);
    rig.ranges.persist(span).expect("within the guest");
    let (done, returned) = channel();
    std::thread::scope(|scope| {
        let rig = &rig;
        let lock = rig.ranges.lock(span).expect("free");
        rig.store(PAGE, &[5; 8]);
        scope.spawn(move || {
            let _bug = planted.map(plant);
            rig.barrier().expect("nothing fails");
            done.send(()).expect("heard");
        });
        let early = returned.recv_timeout(patience);
        rig.store(PAGE + 8, &[5; 8]);
        drop(lock);
        early.or_else(|_| returned.recv()).expect("returned");
    });
    rig.word(PAGE) != rig.word(PAGE + 8)
}

#[test]
fn pv5_locked_bytes_are_not_copied() {
    assert!(!locked_bytes_are_copied(None, Duration::from_millis(50)));
}

#[test]
fn canary_pv4_a_barrier_that_does_not_wait_is_caught() {
    let bug = "guest: a barrier does not wait for another";
    assert!(second_barrier_overtakes(Some(bug), Duration::from_secs(60)));
}

#[test]
fn canary_pv5_locked_bytes_that_are_copied_are_caught() {
    assert!(locked_bytes_are_copied(Some("guest: locked bytes are copied"), Duration::from_secs(60)));
}

#[test]
fn pv5_a_lock_is_of_one_thread_and_refuses_its_own_barrier() {
    let ranges = PersistRanges::new(100);
    let rig = ParaRig::open(GuestShape::default(), GuestShape::default().world());
    assert!(ranges.persist(Span::new(90, 11)).is_err() && ranges.persist(Span::new(u64::MAX, 2)).is_err());
    assert!(ranges.lock(Span::new(100, 1)).is_err() && ranges.unlock(Span::new(0, 1)).is_err());
    ranges.lock(Span::new(10, 20)).expect("free").keep();
    let again = ranges.lock(Span::new(29, 5)).err().expect("refused").to_string();
    assert!(again.contains("already"), "{again}");
    let refused = ranges.barrier(&rig.engine, &rig.dram).expect_err("refused").to_string();
    assert!(refused.contains("unlock first"), "{refused}");
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            assert!(ranges.unlock(Span::new(10, 20)).is_err(), "of another thread");
            drop(ranges.lock(Span::new(30, 5)).expect("beside it"));
            drop(ranges.lock(Span::new(9, 2)).expect("after it"));
        });
        std::thread::sleep(Duration::from_millis(10));
        assert!(!other.is_finished());
        ranges.unlock(Span::new(10, 20)).expect("locked");
    });
    ranges.barrier(&rig.engine, &rig.dram).expect("nothing waits");
}
