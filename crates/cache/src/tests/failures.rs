//! SSDs and disks that fail, hang and rot: nothing acknowledged is lost (CA4, CA5, CA10, CA11, CA18, CA20).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ferrite_crash::World;
use ferrite_disk::{Access, Clock, Disk, FaultAction, FaultCondition, FaultDisk, FaultError, FaultOp, FaultPlan};
use ferrite_memory::planted::plant;

use super::cache_rig::{BLOCKS, LEB, members_of};
use super::{CacheRig, RigShape, block_of};
use crate::{BLOCK, CacheMode, CacheSettings, NewSsd, SsdState};

/// A clock that passes.
pub(crate) struct TestClock(pub Instant);

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait_until_ns(&self, until_ns: u64) {
        std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
    }
}

/// Overwrites, seals, cleans and reads. Returns the version of each block.
fn busy(rig: &CacheRig, mut after: impl FnMut(u64)) -> Vec<u64> {
    let mut versions = vec![0; BLOCKS as usize];
    for round in 1..=6_u64 {
        for block in 0..9 {
            let block = (block * round) % BLOCKS;
            rig.settle();
            rig.write(block, round * 100 + block);
            versions[block as usize] = round * 100 + block;
            after(block);
        }
        if round % 3 == 0 {
            rig.cache.clean_all(true);
            rig.settle();
            rig.cache.clean_all(false);
        }
    }
    versions
}

fn assert_content(rig: &CacheRig, versions: &[u64]) {
    for (block, version) in (0..).zip(versions) {
        // A read of the disk that failed may succeed the next time.
        let read = rig.read(block).or_else(|_| rig.read(block));
        let read = read.unwrap_or_else(|error| panic!("block {block}: {error}"));
        assert_eq!(read, block_of(*version), "block {block}");
    }
}

pub(super) fn state_of(rig: &CacheRig, ssd: u8) -> SsdState {
    rig.cache.core.ssds.get(ssd).expect("it exists").state().0
}

#[test]
fn ca4_sweep_of_failing_ssd_requests_loses_nothing() {
    for from_on in [false, true] {
        let mut number = 0;
        loop {
            let shape = RigShape::default();
            let world = shape.world();
            let rig = shape.open(&world).expect("it opens");
            let ssd = world.disk(1);
            let before = ssd.requests();
            match from_on {
                true => ssd.fail_from(before + number),
                false => ssd.fail_nth(before + number),
            }
            let versions = busy(&rig, |_| {});
            let requests = ssd.requests() - before;
            assert_content(&rig, &versions);
            drop(rig);
            // The SSD stays away: all is on the other one, in the pool, and on the disk.
            let rig = shape.open_without(&world, &["ssd1"]).expect("it opens");
            assert_content(&rig, &versions);
            if number > requests {
                break;
            }
            number += 1;
        }
        assert!(number > 30, "only {number} requests were failed");
    }
}

#[test]
fn ca6_sweep_of_failing_disk_requests_loses_nothing() {
    let mut number = 0;
    loop {
        let shape = RigShape::default();
        let world = shape.world();
        let rig = shape.open(&world).expect("it opens");
        let disk = world.disk(2);
        let before = disk.requests();
        disk.fail_nth(before + number);
        let versions = busy(&rig, |_| {});
        let requests = disk.requests() - before;
        assert_content(&rig, &versions);
        rig.cache.worker.lock().retry_ns = 0;
        rig.clean();
        let bytes = disk.snapshot();
        for (block, version) in versions.iter().enumerate() {
            assert!(bytes[block * BLOCK as usize..][..BLOCK as usize] == block_of(*version), "block {block}");
        }
        if number > requests {
            return;
        }
        number += 1;
    }
}

/// Writes a block through while a flush fails by which the disk loses the write. Returns true if the disk gets it again.
fn disk_gets_what_a_failed_flush_lost() -> bool {
    let base = RigShape::default();
    let settings = CacheSettings { mode: CacheMode::WriteThrough, ..base.settings };
    let shape = RigShape { settings, ..base };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    rig.write(3, 7);
    let disk = world.disk(2);
    disk.fail_nth(disk.requests());
    rig.disk.flush().expect_err("the disk's flush fails");
    disk.write(3 * BLOCK, &block_of(0), Access::Fua).expect("written");
    rig.disk.flush().expect("flushed");
    (4..6).for_each(|block| rig.write(block, 7));
    rig.settle();
    rig.clean();
    disk.snapshot()[3 * BLOCK as usize..][..BLOCK as usize] == block_of(7)
}

#[test]
fn ca6_write_that_a_failed_flush_lost_is_written_again() {
    assert!(disk_gets_what_a_failed_flush_lost());
}

#[test]
fn canary_failed_flush_that_is_forgotten_is_caught() {
    let _bug = plant("cache: a failed flush is forgotten");
    assert!(!disk_gets_what_a_failed_flush_lost());
}

/// Lets a client's flush fail while a batch is being written. Returns true if the batch stays dirty.
fn batch_stays_dirty_behind_a_failed_flush() -> bool {
    let shape = RigShape::default();
    let world = shape.world();
    let mut members = members_of(&world, &shape);
    let disk = Arc::new(FaultDisk::new(Arc::clone(&members["disk"]), FaultPlan::default()));
    members.insert("disk".into(), disk.clone());
    let rig = shape.open_with(&world, members).expect("it opens");
    let plan = |action, op| FaultPlan::of(action, FaultCondition { op: Some(op), ..FaultCondition::default() });
    rig.cache.set(CacheSettings { mode: CacheMode::WriteAround, ..rig.cache.settings() }).expect("set");
    rig.write(9, 1);
    rig.cache.set(CacheSettings { mode: CacheMode::WriteBack, ..rig.cache.settings() }).expect("set");
    (0..3).for_each(|block| rig.write(block, 10 + block));
    disk.faults().set(plan(FaultAction::Hang, FaultOp::Write));
    rig.cache.clean_all(true);
    (0..3).for_each(|_| _ = rig.cache.step().expect("a step"));
    disk.faults().set(plan(FaultAction::Error(FaultError::Io), FaultOp::Flush));
    rig.disk.flush().expect_err("the disk's flush fails");
    disk.faults().set(FaultPlan::default());
    (0..5).for_each(|_| _ = rig.cache.step().expect("a step"));
    let stays = rig.cache.dirty_bytes() == 3 * BLOCK;
    rig.cache.worker.lock().retry_ns = 0;
    rig.clean();
    stays
}

#[test]
fn ca6_batch_is_written_again_behind_a_clients_failed_flush() {
    assert!(batch_stays_dirty_behind_a_failed_flush());
}

#[test]
fn canary_batch_that_ignores_a_clients_failed_flush_is_caught() {
    let _bug = plant("cache: a batch ignores a client's failed flush");
    assert!(!batch_stays_dirty_behind_a_failed_flush());
}

/// A disk that hangs delays its clients, and the statistics report that.
#[test]
fn hung_disk_is_reported_while_requests_wait() {
    let shape = RigShape::default();
    let world = shape.world();
    let mut members = members_of(&world, &shape);
    let disk = Arc::new(FaultDisk::new(Arc::clone(&members["disk"]), FaultPlan::default()));
    members.insert("disk".into(), disk.clone());
    let rig = shape.open_with(&world, members).expect("it opens");
    let why = || rig.cache.stats(None).disks[0].why.clone();
    rig.write(1, 1);
    let hang = FaultCondition { op: Some(FaultOp::Write), ..FaultCondition::default() };
    disk.faults().set(FaultPlan::of(FaultAction::Hang, hang));
    rig.cache.clean_all(true);
    (0..3).for_each(|_| _ = rig.cache.step().expect("a step"));
    assert_eq!(why(), None, "it may still answer");
    rig.clock.pass_ns(11_000_000_000);
    assert!(why().is_some_and(|why| why.contains("answered no request for 11 s")), "{:?}", why());
    disk.faults().set(FaultPlan::default());
    (0..5).for_each(|_| _ = rig.cache.step().expect("a step"));
    assert_eq!(why(), None);
    rig.clean();
}

/// Overwrites all LEBs of an SSD.
fn rot(world: &World, ssd: usize) {
    let disk = world.disk(ssd);
    let lebs = disk.geometry().size / LEB;
    disk.write(LEB, &vec![0xa5; ((lebs - 1) * LEB) as usize], Access::Cached).expect("written");
}

#[test]
fn ca10_rotten_ssd_gives_no_wrong_byte() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    let versions = busy(&rig, |block| {
        if block == 3 {
            rot(&world, 0);
        }
    });
    assert_content(&rig, &versions);
    let mismatches = rig.cache.core.ssds.get(0).expect("it exists").mismatches.load(Ordering::Relaxed);
    assert!(mismatches > 0, "no page of the rotten SSD was read");
}

#[test]
fn canary_sum_that_is_not_compared_is_caught() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = plant("cache: a sum is not compared");
        ca10_rotten_ssd_gives_no_wrong_byte();
    });
    assert!(caught.is_err());
}

#[test]
fn ca5_death_of_either_ssd_loses_nothing() {
    for dead in ["ssd0", "ssd1"] {
        let shape = RigShape::default();
        let world = shape.world();
        let rig = shape.open(&world).expect("it opens");
        let mut versions = busy(&rig, |_| {});
        for block in 0..12 {
            rig.settle();
            rig.write(block, 900 + block);
            versions[block as usize] = 900 + block;
        }
        rig.settle();
        drop(rig);
        let rig = shape.open_without(&world, &[dead]).expect("it opens");
        assert_content(&rig, &versions);
        let lost = rig.cache.core.unreadable_pages();
        assert_eq!(lost, (0, 0), "nothing is away or lost");
    }
}

#[test]
fn canary_both_copies_on_one_ssd_are_caught() {
    let caught = std::panic::catch_unwind(|| {
        let _bug = plant("cache: both copies go to one SSD");
        ca5_death_of_either_ssd_loses_nothing();
    });
    assert!(caught.is_err());
}

#[test]
fn ca20_what_both_ssds_lost_is_an_error_until_it_is_written() {
    let shape = RigShape::default();
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..6).for_each(|block| rig.write(block, 100 + block));
    rig.settle();
    drop(rig);
    let rig = shape.open_without(&world, &["ssd0", "ssd1"]).expect("it opens");
    let (away, lost) = rig.cache.core.unreadable_pages();
    assert_eq!((away, lost), (6, 0), "six dirty pages are on SSDs that are missing");
    for block in 0..6 {
        let error = rig.read(block).expect_err("the newest version is away");
        assert!(error.contains("SSD 0"), "{error}");
    }
    assert_eq!(rig.read(7).expect("read"), block_of(0), "other blocks are on the disk");
    rig.write(2, 300);
    assert_eq!(rig.read(2).expect("read"), block_of(300), "a whole write heals a block");
}

/// Dirty pages that no SSD gives keep no later ones from the disk.
#[test]
fn dirty_pages_that_are_away_stop_no_destaging() {
    let settings = CacheSettings { destage_rate: Some(1), dirty_age_ns: 0, ..RigShape::default().settings };
    let shape = RigShape { spares: 2, settings, ..RigShape::default() };
    let world = shape.world();
    let rig = shape.open(&world).expect("it opens");
    (0..6).for_each(|block| rig.write(block, 100 + block));
    rig.settle();
    drop(rig);
    let rig = shape.open_without(&world, &["ssd0", "ssd1"]).expect("it opens");
    let away = rig.cache.unreadable_bytes();
    assert!(away > 0 && rig.cache.dirty_bytes() == away);
    for number in [2_u8, 3] {
        let address = format!("ssd{number}");
        let disk = members_of(&world, &shape).remove(&address).expect("a spare one");
        rig.cache.add_ssd(NewSsd { address, disk, uuid: [20 + number; 16] }, None).expect("added");
    }
    (10..19).for_each(|block| rig.write(block, 100 + block));
    rig.settle();
    assert!(rig.cache.dirty_bytes() > away, "they are on the new SSDs");
    for _ in 0..60 {
        rig.clock.pass_ns(500_000_000);
        rig.settle();
    }
    assert_eq!(rig.cache.dirty_bytes(), away);
}

/// A rig over SSDs with faults and real time, and a thread that works in the background.
pub(super) struct TimedRig {
    pub rig: CacheRig,
    pub faults: Vec<Arc<FaultDisk<Arc<dyn Disk>>>>,
    stopped: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl TimedRig {
    fn new(world: &World) -> Self {
        Self::over(world, |ssd| ssd, None)
    }

    /// Returns a rig whose SSDs are what `wrap` makes of them. Plants `bug` in the thread that works in the background.
    pub fn over(world: &World, wrap: impl Fn(Arc<dyn Disk>) -> Arc<dyn Disk>, bug: Option<&'static str>) -> Self {
        let settings = CacheSettings { ssd_timeout_ns: 300_000_000, grace_ns: 0, ..RigShape::default().settings };
        let shape = RigShape { settings, ..RigShape::default() };
        let mut members = members_of(world, &shape);
        let faults: Vec<_> = ["ssd0", "ssd1"]
            .map(|name| Arc::new(FaultDisk::new(Arc::clone(&members[name]), FaultPlan::default())))
            .into_iter()
            .collect();
        for (number, disk) in faults.iter().enumerate() {
            members.insert(format!("ssd{number}"), wrap(Arc::clone(disk) as Arc<dyn Disk>));
        }
        let clock = Arc::new(TestClock(Instant::now()));
        let rig = shape.open_members(world, members, clock).expect("it opens");
        rig.cache.set(settings).expect("set");
        let stopped = Arc::new(AtomicBool::new(false));
        let (cache, is_stopped) = (Arc::clone(&rig.cache), Arc::clone(&stopped));
        let work = move || {
            let _bug = bug.map(plant);
            while !is_stopped.load(Ordering::SeqCst) {
                let pause = cache.step().expect("a step");
                cache.rest(pause);
            }
        };
        let thread = Some(std::thread::spawn(work));
        Self { rig, faults, stopped, thread }
    }
}

impl Drop for TimedRig {
    fn drop(&mut self) {
        self.faults.iter().for_each(|disk| disk.faults().set(FaultPlan::default()));
        self.stopped.store(true, Ordering::SeqCst);
        self.rig.cache.stop();
        let _ = self.thread.take().expect("it runs").join();
    }
}

#[test]
fn ca18_hung_ssd_delays_no_client_longer_than_its_timeout() {
    let world = RigShape::default().world();
    let timed = TimedRig::new(&world);
    let hang = FaultPlan::of(FaultAction::Hang, FaultCondition { from: Some(0), ..FaultCondition::default() });
    let mut versions = vec![0; BLOCKS as usize];
    let mut slowest = Duration::ZERO;
    for round in 1..=12_u64 {
        if round == 6 {
            timed.faults[1].faults().set(hang.clone());
        }
        for block in 0..12 {
            let start = Instant::now();
            timed.rig.write(block, round * 100 + block);
            versions[block as usize] = round * 100 + block;
            let _ = timed.rig.read((block + 5) % 12).expect("read");
            slowest = slowest.max(start.elapsed());
        }
    }
    assert_content(&timed.rig, &versions);
    assert_eq!(state_of(&timed.rig, 1), SsdState::Failed);
    assert!(slowest < Duration::from_secs(20), "{slowest:?}");
}

#[test]
fn ca7_mode_changes_under_load_lose_nothing() {
    for deferring in [None, Some(1), Some(2)] {
        change_modes_under_load(&RigShape { deferring, ..RigShape::default() }.world());
    }
}

fn change_modes_under_load(world: &World) {
    let timed = TimedRig::new(world);
    let disk = &timed.rig.disk;
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            scope.spawn(move || {
                // Each thread has blocks of its own.
                for round in 1..60_u64 {
                    for block in (thread..BLOCKS).step_by(4) {
                        disk.write(block * BLOCK, &block_of(round * 1000 + block), Access::Cached).expect("written");
                        let mut read = vec![0; BLOCK as usize];
                        disk.read(block * BLOCK, &mut read).expect("read");
                        let found = u64::from_le_bytes(*read.first_chunk().expect("eight bytes")) >> 32;
                        assert!(read == block_of(round * 1000 + block), "block {block} in round {round}: {found}");
                    }
                }
            });
        }
        for round in 0..40 {
            let modes = [CacheMode::WriteBack, CacheMode::WriteThrough, CacheMode::WriteAround];
            let settings = CacheSettings { mode: modes[round % 3], ..timed.rig.cache.settings() };
            timed.rig.cache.set(settings).expect("set");
            timed.rig.cache.clean_all(round % 5 == 0);
            std::thread::sleep(Duration::from_millis(3));
        }
    });
}
