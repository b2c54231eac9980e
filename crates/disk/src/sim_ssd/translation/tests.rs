//! The time of a translation layer's work, with a layer whose work the test chooses (SS6, SS7).

use std::sync::{Arc, Mutex};

use super::{ReclaimWork, SsdTranslation};
use crate::sim_disk::tests::assert_found;
use crate::{
    Access, Clock, Completion, Disk, Op, RamDisk, Request, SsdDisk, SsdProfile, VirtualClock, Wait, WriteCache, Zeroing,
};
use ferrite_memory::Span;

const SIZE: u64 = 64 << 20;
const PAGE: u64 = 4096;

/// A request to the layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    Program(u64),
    Trim(u64),
    Read(u64),
}

/// A layer that does the same work for each program, and its requests.
#[derive(Clone)]
pub(crate) struct ScriptedLayer {
    work: ReclaimWork,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl ScriptedLayer {
    /// Returns a layer that does `work` for each program.
    pub fn new(work: ReclaimWork) -> Self {
        Self { work, seen: Arc::default() }
    }

    fn see(&self, seen: Seen) {
        self.seen.lock().unwrap().push(seen);
    }

    /// Returns the requests since the last call.
    fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }
}

impl SsdTranslation for ScriptedLayer {
    fn program(&mut self, page: u64) -> ReclaimWork {
        self.see(Seen::Program(page));
        self.work
    }

    fn trim(&mut self, page: u64) {
        self.see(Seen::Trim(page));
    }

    fn read(&mut self, page: u64) {
        self.see(Seen::Read(page));
    }
}

struct Stage {
    disk: SsdDisk<RamDisk>,
    layer: ScriptedLayer,
    clock: Arc<VirtualClock>,
    profile: SsdProfile,
}

/// Returns an X25-E whose times are sums, with a layer that does this work for each program.
fn stage(cache: WriteCache, copied_pages: u64, erases: u64) -> Stage {
    let profile =
        SsdProfile { command_ns: 0, variation_percent: 0, link_bytes_per_s: u64::MAX, cache, ..SsdProfile::x25e() };
    let layer = ScriptedLayer::new(ReclaimWork { copied_pages, erases });
    let clock = Arc::new(VirtualClock::default());
    let disk = SsdDisk::aged(RamDisk::new(SIZE), &profile, layer.clone(), Arc::clone(&clock), 1);
    Stage { disk, layer, clock, profile }
}

impl Stage {
    fn took_ns(&self, work: impl FnOnce(&SsdDisk<RamDisk>)) -> u64 {
        let before_ns = self.clock.now_ns();
        work(&self.disk);
        self.clock.now_ns() - before_ns
    }

    fn write_ns(&self, page: u64) -> u64 {
        self.took_ns(|disk| disk.write(page * PAGE, &[1; PAGE as usize], Access::Cached).unwrap())
    }

    /// Submits all requests at once, and returns when each ended, by its token.
    fn ends_ns(&self, requests: &[(Op, u64)]) -> Vec<u64> {
        let mut queue = self.disk.queue().unwrap().unwrap();
        let from_ns = self.clock.now_ns();
        for (token, (op, page)) in requests.iter().enumerate() {
            let span = Span::new(page * PAGE, PAGE);
            let request = Request { token: token as u64, op: *op, span, buffer: vec![0; PAGE as usize] };
            assert!(queue.submit(request).is_none());
        }
        let mut ends_ns = vec![0; requests.len()];
        while queue.in_flight() > 0 {
            let mut completions: Vec<Completion> = Vec::new();
            queue.collect(Wait::Forever, &mut completions).unwrap();
            for completion in completions {
                ends_ns[completion.token as usize] = self.clock.now_ns() - from_ns;
            }
        }
        ends_ns
    }
}

/// SS6: eleven works on ten channels delay the write's own channel by two, in front of the program.
#[test]
fn ss6_copies_and_erases_take_the_channels_in_turns_before_the_program() {
    let copies = stage(WriteCache::Off, 11, 0);
    let SsdProfile { read_ns, program_ns, erase_ns, .. } = copies.profile;
    let copy_ns = read_ns + program_ns;
    assert_eq!(copies.write_ns(0), 2 * copy_ns + program_ns, "copies 1 and 11");
    // Channel 1 has the next copy, and channel 2 the last of eleven.
    assert_eq!(copies.write_ns(1), 2 * copy_ns + program_ns);
    let erases = stage(WriteCache::Off, 0, 3);
    let ends_ns = erases.ends_ns(&[(Op::Write(Access::Cached), 5), (Op::Read, 0), (Op::Read, 2), (Op::Read, 3)]);
    assert_eq!(ends_ns, [program_ns, erase_ns + read_ns, erase_ns + read_ns, read_ns], "a read behind an erase waits");
}

/// SS6, SS1: a read waits for one copy, not for all that are queued, while no request waits for them.
#[test]
fn ss6_a_read_passes_queued_copies() {
    let stage = stage(WriteCache::Volatile(1 << 20), 100, 0);
    let SsdProfile { read_ns, program_ns, .. } = stage.profile;
    assert_eq!(stage.write_ns(0), 0, "the cache takes the write");
    let took_ns = stage.took_ns(|disk| disk.read(500 * PAGE, &mut [0; PAGE as usize]).unwrap());
    assert_eq!(took_ns, read_ns + program_ns + read_ns, "the copy that is under way");
    let flush_ns = stage.took_ns(|disk| disk.flush().unwrap());
    assert!(flush_ns >= 9 * (read_ns + program_ns) + program_ns, "a flush waits for the copies: {flush_ns}");
}

/// SS6, SS4: a layer counts each program once, and one that causes no work costs no time.
#[test]
fn ss6_a_layer_without_work_leaves_the_times_of_a_fresh_drive() {
    let aged = stage(WriteCache::Volatile(64 << 10), 0, 0);
    let clock = Arc::new(VirtualClock::default());
    let fresh = SsdDisk::new(RamDisk::new(SIZE), &aged.profile, Arc::clone(&clock), 1);
    for i in 0..200_u64 {
        let page = i * i % 61;
        for disk in [&aged.disk, &fresh] {
            disk.write(page * PAGE, &[1; PAGE as usize], Access::Cached).unwrap();
            disk.read((page + 7) * PAGE, &mut [0; PAGE as usize]).unwrap();
        }
        assert_eq!(aged.clock.now_ns(), clock.now_ns(), "request {i}");
    }
    let rewritten = stage(WriteCache::Volatile(1 << 20), 0, 0);
    (0..1000).for_each(|_| _ = rewritten.write_ns(5));
    rewritten.disk.flush().unwrap();
    let mut seen = rewritten.layer.take_seen();
    seen.dedup();
    assert_eq!(seen, [Seen::Program(5)]);
}

/// SS7: a page of which a trim covers a part keeps its content.
#[test]
fn ss7_the_layer_learns_of_whole_trimmed_pages() {
    let stage = stage(WriteCache::Volatile(1 << 20), 0, 0);
    assert!(stage.disk.geometry().trim);
    stage.disk.trim(Span::new(512, 3 * PAGE), Access::Cached).unwrap();
    assert_eq!(stage.layer.take_seen(), [Seen::Trim(1), Seen::Trim(2)]);
    stage.disk.trim(Span::new(512, PAGE), Access::Cached).unwrap();
    assert_eq!(stage.layer.take_seen(), []);
    stage.disk.write_zeroes(Span::new(4 * PAGE, PAGE), Zeroing::default()).unwrap();
    stage.disk.write_zeroes(Span::new(5 * PAGE, PAGE), Zeroing { keep_space: true, ..Zeroing::default() }).unwrap();
    stage.disk.read(9 * PAGE, &mut [0; PAGE as usize]).unwrap();
    assert_eq!(stage.layer.take_seen(), [Seen::Trim(4), Seen::Program(5), Seen::Read(9)]);
}

/// SS7: a page that is trimmed while it waits in the cache and then written again is new content for the layer.
#[test]
fn ss7_a_write_behind_a_trim_counts_again() {
    let stage = stage(WriteCache::Volatile(1 << 20), 0, 0);
    // Page 0 takes channel 0, so that page 10 waits.
    [0, 10].into_iter().for_each(|page| _ = stage.write_ns(page));
    let requests = [(Op::Trim(Access::Cached), 10), (Op::Write(Access::Cached), 10)];
    stage.ends_ns(&requests);
    stage.disk.flush().unwrap();
    let seen = stage.layer.take_seen();
    assert_eq!(seen, [Seen::Program(0), Seen::Program(10), Seen::Trim(10), Seen::Program(10)]);
}

#[test]
fn canary_what_no_aged_ssd_may_do_is_found() {
    let in_turns = ss6_copies_and_erases_take_the_channels_in_turns_before_the_program;
    assert_found(in_turns, "disk: copy takes only a program");
    assert_found(in_turns, "disk: erase takes no time");
    assert_found(in_turns, "disk: all reclaim work is in one channel");
    assert_found(ss7_the_layer_learns_of_whole_trimmed_pages, "disk: trim drops a page of which it covers a part");
    assert_found(ss7_the_layer_learns_of_whole_trimmed_pages, "disk: trim does not reach the layer");
    assert_found(ss7_a_write_behind_a_trim_counts_again, "disk: write behind a trim replaces the trimmed page");
}
