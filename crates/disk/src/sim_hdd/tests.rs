//! Hard disks in virtual time, by their numbered rules.

use std::cell::RefCell;
use std::sync::Arc;

use super::*;
use crate::sim_disk::tests::assert_found;
use crate::{Completion, Op, Queue, RamDisk, Request, VirtualClock, Wait};

const SIZE: u64 = 64 << 20;
const MS_NS: u64 = 1_000_000;
const ROTATION_NS: u64 = 60_000_000_000 / 7200;

struct Stage {
    disk: HddDisk<RamDisk>,
    queue: RefCell<Box<dyn Queue>>,
    clock: Arc<VirtualClock>,
}

/// A drive whose 64 MiB reach from one end of the stroke to the other.
fn stage(cache: WriteCache) -> Stage {
    with_profile(&HddProfile { cache, ..HddProfile::rpm_7200().with_capacity(SIZE) })
}

fn with_profile(profile: &HddProfile) -> Stage {
    let clock = Arc::new(VirtualClock::default());
    let disk = HddDisk::new(RamDisk::new(SIZE), profile, Arc::clone(&clock), 1);
    let queue = RefCell::new(disk.queue().unwrap().unwrap());
    Stage { disk, queue, clock }
}

impl Stage {
    fn took_ns(&self, what: impl FnOnce(&HddDisk<RamDisk>)) -> u64 {
        let before_ns = self.clock.now_ns();
        what(&self.disk);
        self.clock.now_ns() - before_ns
    }

    fn read_ns(&self, at: u64, len: usize) -> u64 {
        self.took_ns(|disk| disk.read(at, &mut vec![0; len]).unwrap())
    }

    fn write_ns(&self, at: u64, access: Access) -> u64 {
        self.took_ns(|disk| disk.write(at, &[1; 4096], access).unwrap())
    }

    fn write(&self, at: u64) {
        self.write_ns(at, Access::Cached);
    }

    fn flush_ns(&self) -> u64 {
        self.took_ns(|disk| disk.flush().unwrap())
    }

    fn submit(&self, token: u64, op: Op, at: u64) {
        let request = Request { token, op, span: Span::new(at, 4096), buffer: vec![0; 4096] };
        assert!(self.queue.borrow_mut().submit(request).is_none());
    }

    /// Waits for a request of the queue.
    fn collect(&self) -> Vec<Completion> {
        let mut completions = Vec::new();
        self.queue.borrow_mut().collect(Wait::Forever, &mut completions).unwrap();
        completions
    }

    fn drain(&self) -> Vec<u64> {
        let mut tokens = Vec::new();
        loop {
            let done = self.collect();
            if done.is_empty() {
                return tokens;
            }
            tokens.extend(done.iter().map(|completion| completion.token));
        }
    }
}

/// Scattered places of 4 KiB, the same ones in every run.
fn scattered(count: u64) -> impl Iterator<Item = u64> {
    let mix = |i: u64| (i ^ (i >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (1..=count).map(move |i| (mix(mix(i.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 20) % (SIZE / 4096) * 4096)
}

/// H1: reads in a row run at the rate of the outer zone; scattered ones take a mean seek and half a rotation.
#[test]
fn sequential_and_random_reads_differ_as_on_a_drive() {
    let sequential = stage(WriteCache::Off);
    let first_ns = sequential.read_ns(0, 1 << 20);
    let rest_ns: u64 = (1..4).map(|at| sequential.read_ns(at << 20, 1 << 20)).sum();
    let rate = (3 << 20) as f64 * 1e9 / rest_ns as f64;
    assert!((90e6..116e6).contains(&rate), "{rate} bytes a second, the first read took {first_ns} ns");

    let random = stage(WriteCache::Off);
    let total_ns: u64 = scattered(400).map(|at| random.read_ns(at, 4096)).sum();
    let mean_ms = total_ns as f64 / 400.0 / MS_NS as f64;
    assert!((11.0..14.5).contains(&mean_ms), "8.5 ms of seek and 4.2 ms of rotation, got {mean_ms}");
}

/// H1: the farther the head has to go, the longer it takes.
#[test]
fn distance_costs() {
    let mean_ns = |distance: u64| -> u64 {
        let stage = with_profile(&HddProfile { segments: 0, ..HddProfile::rpm_7200().with_capacity(SIZE) });
        let tries = (0..64_u64).map(|i| {
            stage.read_ns(0, 4096);
            stage.clock.pass_ns(i * ROTATION_NS / 64 + 20 * MS_NS);
            stage.read_ns(distance, 4096)
        });
        tries.sum::<u64>() / 64
    };
    let means = [4 << 20, 20 << 20, 60 << 20].map(mean_ns);
    assert!(means.is_sorted(), "{means:?}");
    assert!(means[2] > means[0] + 5 * MS_NS, "{means:?}");
}

/// H1, H2: writes to one sector without a cache complete whole rotations apart, and the platters turn between requests.
#[test]
fn the_platters_turn_by_themselves() {
    let stage = stage(WriteCache::Off);
    stage.write_ns(8192, Access::Cached);
    let completed_ns = stage.clock.now_ns();
    for idle_ns in [0, 1_234_567, 50 * MS_NS] {
        stage.clock.pass_ns(idle_ns);
        stage.write_ns(8192, Access::Cached);
        let since_ns = stage.clock.now_ns() - completed_ns;
        assert!(since_ns.is_multiple_of(ROTATION_NS), "{since_ns} after {idle_ns} idle");
    }
}

/// H3: many requests in flight are reordered and take much less than one after another.
#[test]
fn a_queue_is_served_nearest_first() {
    let alone = stage(WriteCache::Off);
    let alone_ns: u64 = scattered(32).map(|at| alone.read_ns(at, 4096)).sum();
    let queued = stage(WriteCache::Off);
    let mut order = Vec::new();
    let queued_ns = queued.took_ns(|_| {
        (0..).zip(scattered(32)).for_each(|(token, at)| queued.submit(token, Op::Read, at));
        order = queued.drain();
    });
    assert!(queued_ns * 3 < alone_ns * 2, "{queued_ns} against {alone_ns}");
    assert!(!order.is_sorted(), "{order:?}");
    let fifo = with_profile(&HddProfile { queue_depth: 1, segments: 0, ..HddProfile::rpm_7200().with_capacity(SIZE) });
    (0..).zip(scattered(32)).for_each(|(token, at)| fifo.submit(token, Op::Read, at));
    assert!(fifo.drain().is_sorted(), "a queue of one is served in order");
}

/// H3: a request far away is not passed by for ever by a stream of near ones.
#[test]
fn nobody_waits_for_ever() {
    let stage = stage(WriteCache::Off);
    (0..8).for_each(|token| stage.submit(token, Op::Write(Access::Cached), token * 4096));
    stage.submit(9999, Op::Read, SIZE - 4096);
    let mut next = 8;
    while stage.clock.now_ns() < PATIENCE_NS + 60 * MS_NS {
        for completion in stage.collect() {
            if completion.token == 9999 {
                return;
            }
            stage.submit(next, Op::Write(Access::Cached), next * 4096 % (1 << 20));
            next += 1;
        }
    }
    panic!("the far request was passed by {next} times");
}

/// H4: a cached write is quick, what makes it durable is not, and a second flush finds nothing to do.
#[test]
fn a_flush_waits_for_the_platters() {
    let cached = stage(WriteCache::Volatile(16 << 20));
    assert!(cached.disk.geometry().volatile_cache);
    for at in scattered(20) {
        let took_ns = cached.write_ns(at, Access::Cached);
        assert!(took_ns < MS_NS / 5, "{took_ns}");
    }
    assert!(cached.flush_ns() > 20 * MS_NS, "twenty places take twenty seeks");
    assert!(cached.flush_ns() < MS_NS / 5);
    cached.clock.pass_ns(100 * MS_NS);
    assert!(cached.write_ns(40 << 20, Access::Fua) > MS_NS, "FUA goes to the platters");
    let off = stage(WriteCache::Off);
    assert!(scattered(20).map(|at| off.write_ns(at, Access::Cached)).sum::<u64>() > 100 * MS_NS);
    assert!(!off.disk.geometry().volatile_cache && off.flush_ns() < MS_NS / 5);
    let saved = stage(WriteCache::Protected(16 << 20));
    scattered(20).for_each(|at| assert!(saved.write_ns(at, Access::Fua) < MS_NS / 5));
    assert!(saved.flush_ns() < MS_NS / 5);
}

/// H4: what the head is on the way to write has left the cache's lists, and is not on the platters.
#[test]
fn a_flush_waits_for_what_is_being_written() {
    let stage = stage(WriteCache::Volatile(16 << 20));
    stage.write(40 << 20);
    let took_ns = stage.flush_ns();
    assert!(took_ns > MS_NS, "{took_ns}");
}

/// H4: an idle drive destages written data, so that a later flush finds none.
#[test]
fn an_idle_drive_empties_its_cache() {
    let stage = stage(WriteCache::Volatile(16 << 20));
    scattered(20).for_each(|at| stage.write(at));
    stage.clock.pass_ns(1000 * MS_NS);
    assert!(stage.flush_ns() < MS_NS / 5);
}

/// H4: a cache that is full takes bytes only as fast as the platters do, and loses none of the requests.
#[test]
fn a_full_cache_runs_at_the_platters_rate() {
    let stage = stage(WriteCache::Volatile(1 << 20));
    let chunk = vec![1; 256 << 10];
    let took_ns =
        stage.took_ns(|disk| (0..64).for_each(|i| disk.write(i * (256 << 10), &chunk, Access::Cached).unwrap()));
    let rate = (16 << 20) as f64 * 1e9 / took_ns as f64;
    assert!((50e6..120e6).contains(&rate), "{rate} bytes a second");
    assert!(
        stage.took_ns(|disk| disk.write(0, &vec![2; 2 << 20], Access::Cached).unwrap()) > 10 * MS_NS,
        "fits no cache"
    );
}

/// H5: after a pause the next piece of a sequential read is in the drive's cache; another place is not.
#[test]
fn the_drive_reads_ahead() {
    let reading = stage(WriteCache::Off);
    reading.read_ns(0, 64 << 10);
    reading.clock.pass_ns(30 * MS_NS);
    assert!(reading.read_ns(64 << 10, 64 << 10) < MS_NS / 2);
    assert!(reading.read_ns(32 << 20, 4096) > MS_NS);
    assert!(reading.read_ns(128 << 10, 64 << 10) < MS_NS / 2, "another segment is kept");
    let plain = with_profile(&HddProfile { segments: 0, ..HddProfile::rpm_7200().with_capacity(SIZE) });
    plain.read_ns(0, 64 << 10);
    plain.clock.pass_ns(30 * MS_NS);
    assert!(plain.read_ns(64 << 10, 64 << 10) > MS_NS / 2);
}

#[test]
fn canary_what_no_hard_disk_may_do_is_found() {
    assert_found(sequential_and_random_reads_differ_as_on_a_drive, "disk: head does not wait for the sector");
    assert_found(the_platters_turn_by_themselves, "disk: platters stand still between requests");
    assert_found(a_queue_is_served_nearest_first, "disk: head serves requests in their order");
    assert_found(nobody_waits_for_ever, "disk: head always serves the nearest request");
    assert_found(a_flush_waits_for_what_is_being_written, "disk: flush does not wait for writes");
    assert_found(the_drive_reads_ahead, "disk: idle head reads nothing ahead");
}

/// A disk at the outer end of a large drive seeks shortly; every profile has a name and serves.
#[test]
fn profiles_serve() {
    let short = with_profile(&HddProfile::rpm_7200());
    let mean_ns = scattered(200).map(|at| short.read_ns(at, 4096)).sum::<u64>() / 200;
    assert!((4 * MS_NS..7 * MS_NS).contains(&mean_ns), "{mean_ns}: half a rotation and a track's seek");
    for name in ["hdd-7200", "hdd-15000", "hdd-5400"] {
        let stage = with_profile(&HddProfile::named(name).unwrap());
        assert!(stage.read_ns(SIZE / 2, 4096) < 60 * MS_NS, "{name}");
    }
    assert_eq!(HddProfile::named("tape"), None);
}
