//! SSDs in virtual time, by their numbered rules.

use std::cell::RefCell;
use std::sync::Arc;

use super::*;
use crate::sim_disk::tests::assert_found;
use crate::{Completion, Op, Queue, RamDisk, Request, VirtualClock, Wait, Zeroing};
use ferrite_memory::Span;

const SIZE: u64 = 64 << 20;
const PAGE: u64 = 4096;

struct Stage {
    disk: SsdDisk<RamDisk>,
    queue: RefCell<Box<dyn Queue>>,
    clock: Arc<VirtualClock>,
    profile: SsdProfile,
}

fn stage(profile: SsdProfile) -> Stage {
    let clock = Arc::new(VirtualClock::default());
    let disk = SsdDisk::new(RamDisk::new(SIZE), &profile, Arc::clone(&clock), 1);
    let queue = RefCell::new(disk.queue().unwrap().unwrap());
    Stage { disk, queue, clock, profile }
}

/// The X25-E without the controller's time and without variation, so that times are sums.
fn plain(cache: WriteCache) -> Stage {
    stage(SsdProfile { command_ns: 0, variation_percent: 0, link_bytes_per_s: u64::MAX, cache, ..SsdProfile::x25e() })
}

impl Stage {
    fn took_ns(&self, what: impl FnOnce(&SsdDisk<RamDisk>)) -> u64 {
        let before_ns = self.clock.now_ns();
        what(&self.disk);
        self.clock.now_ns() - before_ns
    }

    fn write_ns(&self, page: u64, access: Access) -> u64 {
        self.took_ns(|disk| disk.write(page * PAGE, &[1; PAGE as usize], access).unwrap())
    }

    fn write(&self, page: u64) {
        self.write_ns(page, Access::Cached);
    }

    fn flush_ns(&self) -> u64 {
        self.took_ns(|disk| disk.flush().unwrap())
    }

    fn submit(&self, token: u64, op: Op, page: u64) {
        let request = Request { token, op, span: Span::new(page * PAGE, PAGE), buffer: vec![0; PAGE as usize] };
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

    /// Reads of `pages`, all in flight at once.
    fn reads_ns(&self, pages: impl Iterator<Item = u64>) -> u64 {
        self.took_ns(|_| {
            pages.for_each(|page| self.submit(page, Op::Read, page));
            self.drain();
        })
    }
}

/// SS1: ten channels read ten pages in the time of one; ten pages of one channel take ten times that.
#[test]
fn channels_overlap() {
    let one_ns = plain(WriteCache::Off).reads_ns(0..1);
    assert_eq!(one_ns, 33_000);
    assert_eq!(plain(WriteCache::Off).reads_ns(0..10), one_ns);
    assert_eq!(plain(WriteCache::Off).reads_ns((0..10).map(|i| i * 10)), 10 * one_ns);
}

/// SS1: a request on an idle channel overtakes those that queue on a busy one.
#[test]
fn requests_finish_out_of_order() {
    let stage = plain(WriteCache::Off);
    [0, 10, 20, 1].into_iter().for_each(|page| stage.submit(page, Op::Read, page));
    assert_eq!(stage.drain(), [0, 1, 10, 20]);
}

/// SS1: a read passes the programs that the cache has queued on its channel.
#[test]
fn reads_go_before_destaging() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    (0..20).for_each(|i| stage.write(i * 10));
    let took_ns = stage.took_ns(|disk| disk.read(990 * PAGE, &mut [0; PAGE as usize]).unwrap());
    assert!(took_ns <= stage.profile.program_ns + stage.profile.read_ns, "{took_ns}: at most the program under way");
}

/// SS2: the controller bounds the requests a second, the link the bytes a second, as the data sheets say.
#[test]
fn the_profiles_keep_their_data_sheets() {
    for (name, latency_ns, kilo_iops, read_rate, write_rate) in [
        ("ssd-x25e", 75e3, 35.0, 250e6, 170e6),
        ("ssd-sata", 90e3, 95.0, 550e6, 520e6),
        ("ssd-nvme", 70e3, 600.0, 3.4e9, 3e9),
    ] {
        let fresh = || stage(SsdProfile::named(name).unwrap());
        let near = |what: &str, got: f64, wanted: f64| {
            assert!((0.85..1.15).contains(&(got / wanted)), "{name} {what}: {got} instead of {wanted}");
        };
        let one = fresh();
        let mean_ns = (0..100).map(|i| one.reads_ns(iter::once(i * 7))).sum::<u64>() as f64 / 100.0;
        near("latency", mean_ns, latency_ns);
        near("IOPS", 1e6 / fresh().reads_ns(0..8192) as f64 * 8192.0, kilo_iops);
        let big = fresh();
        let read_ns = big.took_ns(|disk| disk.read(0, &mut vec![0; 32 << 20]).unwrap());
        near("reading", (32 << 20) as f64 * 1e9 / read_ns as f64, read_rate);
        let bytes = vec![1; SIZE as usize];
        let off = stage(SsdProfile { cache: WriteCache::Volatile(256 << 10), ..SsdProfile::named(name).unwrap() });
        let write_ns = off.took_ns(|disk| disk.write(0, &bytes, Access::Cached).unwrap());
        near("writing", SIZE as f64 * 1e9 / write_ns as f64, write_rate);
    }
}

/// SS3: a flush waits for what is in the cache, and costs only its own time once that is programmed.
#[test]
fn a_flush_waits_for_the_cache() {
    let cached = plain(WriteCache::Volatile(1 << 20));
    let (program_ns, flush_ns) = (cached.profile.program_ns, cached.profile.flush_ns);
    assert!(cached.disk.geometry().volatile_cache);
    assert_eq!((0..30).map(|page| cached.write_ns(page, Access::Cached)).sum::<u64>(), 0);
    assert_eq!(cached.flush_ns(), 3 * program_ns + flush_ns, "thirty pages on ten channels");
    assert_eq!(cached.flush_ns(), flush_ns);
    assert_eq!(cached.write_ns(0, Access::Fua), program_ns);
    cached.write_ns(1, Access::Cached);
    cached.clock.pass_ns(program_ns);
    assert_eq!(cached.flush_ns(), flush_ns, "it was programmed meanwhile");
}

/// SS3: with a cache that is saved, or without one, a flush has nothing to wait for.
#[test]
fn durable_writes_need_no_flush() {
    let saved = plain(WriteCache::Protected(1 << 20));
    assert_eq!((saved.write_ns(0, Access::Fua), saved.flush_ns()), (0, 0));
    let off = plain(WriteCache::Off);
    assert_eq!((off.write_ns(0, Access::Cached), off.flush_ns()), (off.profile.program_ns, 0));
    assert!(!saved.disk.geometry().volatile_cache && !off.disk.geometry().volatile_cache);
}

/// SS3: pages that came later and are programmed first do not stand in for those that a flush waits for.
#[test]
fn a_flush_is_not_ended_by_later_writes() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    let channels = stage.profile.channels as u64;
    (0..3).for_each(|row| stage.write(row * channels));
    stage.submit(0, Op::Flush, 0);
    (1..3).for_each(|page| stage.submit(page, Op::Write(Access::Cached), page));
    let took_ns = stage.took_ns(|_| while !stage.collect().iter().any(|completion| completion.token == 0) {});
    assert!(took_ns >= 3 * stage.profile.program_ns, "{took_ns}");
}

/// SS3: a flush waits for no page that was written after it came.
#[test]
fn a_flush_is_not_held_up_by_later_writes() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    stage.write_ns(0, Access::Cached);
    stage.submit(1000, Op::Flush, 0);
    (1..20).for_each(|i| stage.write(i * 10));
    let took_ns = stage.took_ns(|_| assert_eq!(stage.drain(), [1000]));
    assert_eq!(took_ns, stage.profile.program_ns + stage.profile.flush_ns);
}

/// SS4: a page that is written again and again is programmed at most twice: as it came, and as it is at the end.
#[test]
fn the_cache_gathers_rewrites() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    (0..1000).for_each(|_| stage.write(5));
    assert_eq!(stage.flush_ns(), 2 * stage.profile.program_ns + stage.profile.flush_ns);
}

/// SS5: a trim costs a command and each erase block that it touches; a zeroing that frees its space costs the same.
#[test]
fn ss5_trims_take_the_time_of_a_command_and_of_their_blocks() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    let SsdProfile { block_bytes, trim_ns, trim_block_ns, .. } = stage.profile;
    let block = u64::from(block_bytes);
    let trim = |at, len| stage.took_ns(|disk| disk.trim(Span::new(at, len), Access::Cached).unwrap());
    assert_eq!(trim(0, PAGE), trim_ns + trim_block_ns);
    assert_eq!(trim(block, 2 * block), trim_ns + 2 * trim_block_ns);
    assert_eq!(trim(block - PAGE, block + 2 * PAGE), trim_ns + 3 * trim_block_ns, "the ends of two blocks count too");
    let zero = |keep_space| {
        let how = Zeroing { keep_space, ..Zeroing::default() };
        stage.took_ns(|disk| disk.write_zeroes(Span::new(0, PAGE), how).unwrap())
    };
    assert_eq!((zero(false), zero(true)), (trim_ns + trim_block_ns, 0), "zeros that keep their space are in the cache");
    for (name, least_us, most_us) in
        [("ssd-x25e", 200, 300), ("ssd-sata", 250, 350), ("ssd-nvme", 63, 72), ("ssd-nvme-plp", 63, 72)]
    {
        let named = self::stage(SsdProfile::named(name).unwrap());
        let took_ns = named.took_ns(|disk| disk.trim(Span::new(0, PAGE), Access::Cached).unwrap());
        assert!((least_us * 1000..most_us * 1000).contains(&took_ns), "{name}: {took_ns}");
    }
}

/// SS5: trims in flight wait for each other, and no other request waits for them.
#[test]
fn ss5_trims_are_served_one_after_another_beside_other_requests() {
    let stage = plain(WriteCache::Volatile(1 << 20));
    let trim_ns = stage.profile.trim_ns + stage.profile.trim_block_ns;
    (0..3).for_each(|token| stage.submit(token, Op::Trim(Access::Cached), token * 1000));
    stage.submit(3, Op::Read, 5000);
    let read_ns = stage.took_ns(|_| assert_eq!(stage.collect()[0].token, 3));
    assert_eq!(read_ns, stage.profile.read_ns);
    let rest_ns = stage.took_ns(|_| assert_eq!(stage.drain(), [0, 1, 2]));
    assert_eq!(read_ns + rest_ns, 3 * trim_ns);
    stage.clock.pass_ns(10 * trim_ns);
    stage.submit(4, Op::Trim(Access::Fua), 0);
    assert_eq!(stage.took_ns(|_| assert_eq!(stage.drain(), [4])), trim_ns, "an idle device begins at once");
}

#[test]
fn canary_what_no_ssd_may_do_is_found() {
    assert_found(channels_overlap, "disk: all pages are in one channel");
    assert_found(reads_go_before_destaging, "disk: program goes before a read");
    assert_found(the_profiles_keep_their_data_sheets, "disk: requests pass the controller in parallel");
    assert_found(a_flush_is_not_ended_by_later_writes, "disk: flush counts pages of later writes");
    assert_found(the_cache_gathers_rewrites, "disk: rewritten page is programmed for each write");
    assert_found(ss5_trims_are_served_one_after_another_beside_other_requests, "disk: trims are served side by side");
    assert_found(a_flush_is_not_held_up_by_later_writes, "disk: request completes before its time");
}

/// A full cache takes pages as they are programmed; one of a single page still works.
#[test]
fn a_full_cache_runs_at_the_channels_rate() {
    let stage = plain(WriteCache::Volatile(1));
    let took_ns: u64 = (0..10).map(|page| stage.write_ns(page, Access::Cached)).sum();
    assert_eq!(took_ns, 9 * stage.profile.program_ns);
}
