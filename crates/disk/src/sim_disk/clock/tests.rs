//! One thread, several drives and many queues on one virtual clock.

use std::sync::Arc;

use ferrite_memory::Span;

use crate::sim_disk::tests::assert_found;
use crate::{
    Access, Clock, Completion, Disk, HddDisk, HddProfile, Op, Queue, RamDisk, Request, SsdDisk, SsdProfile,
    VirtualClock, Wait, WriteCache,
};

const SIZE: u64 = 16 << 20;
const DRIVES: usize = 3;

/// The end of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RequestEnd {
    at_ns: u64,
    drive: usize,
    client: u64,
    token: u64,
}

/// Two SSDs and a hard disk on one clock.
struct Drives {
    clock: Arc<VirtualClock>,
    ssds: [SsdDisk<RamDisk>; 2],
    hdd: HddDisk<RamDisk>,
}

impl Drives {
    /// The caches are so small that they fill.
    fn new() -> Self {
        let clock = Arc::new(VirtualClock::default());
        let cache = WriteCache::Volatile(16 << 10);
        let ssd = |profile: SsdProfile, seed| {
            SsdDisk::new(RamDisk::new(SIZE), &SsdProfile { cache, ..profile }, Arc::clone(&clock), seed)
        };
        let profile = HddProfile { cache, ..HddProfile::rpm_7200().with_capacity(SIZE) };
        let hdd = HddDisk::new(RamDisk::new(SIZE), &profile, Arc::clone(&clock), 3);
        Self { ssds: [ssd(SsdProfile::x25e(), 1), ssd(SsdProfile::nvme(), 2)], hdd, clock }
    }

    fn queue(&self, drive: usize) -> Box<dyn Queue> {
        let disk: &dyn Disk = if drive < 2 { &self.ssds[drive] } else { &self.hdd };
        disk.queue().unwrap().expect("drives have queues")
    }

    fn next_event_ns(&self) -> Option<u64> {
        let ssds = self.ssds.iter().filter_map(SsdDisk::next_event_ns);
        ssds.chain(self.hdd.next_event_ns()).min()
    }

    /// Collects from `queues`, each of a drive and a client, until all drives are idle. `submit_next` may submit to the
    /// queue of a completion.
    fn run(
        &self,
        queues: &mut [(usize, u64, Box<dyn Queue>)],
        mut submit_next: impl FnMut(RequestEnd, &mut dyn Queue),
    ) -> Vec<RequestEnd> {
        let mut ends = Vec::new();
        loop {
            for (drive, client, queue) in &mut *queues {
                for Completion { token, .. } in collect(&mut **queue, Wait::No) {
                    let end = RequestEnd { at_ns: self.clock.now_ns(), drive: *drive, client: *client, token };
                    ends.push(end);
                    submit_next(end, &mut **queue);
                }
            }
            let Some(next_ns) = self.next_event_ns() else { return ends };
            self.clock.advance_to(next_ns);
        }
    }
}

fn collect(queue: &mut dyn Queue, wait: Wait) -> Vec<Completion> {
    let mut completions = Vec::new();
    queue.collect(wait, &mut completions).unwrap();
    completions
}

/// Submits request `token` of a client: one of each kind, at scattered places.
fn submit(queue: &mut dyn Queue, client: u64, token: u64) {
    let mixed = (token * 4 + client + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let op = match mixed >> 40 & 7 {
        0..3 => Op::Read,
        3..5 => Op::Write(Access::Cached),
        5 => Op::Write(Access::Fua),
        6 => Op::Trim(Access::Cached),
        _ => Op::Flush,
    };
    let span = if op == Op::Flush { Span::new(0, 0) } else { Span::new((mixed >> 20) % (SIZE / 4096) * 4096, 4096) };
    assert!(queue.submit(Request { token, op, span, buffer: vec![0; 4096] }).is_none());
}

/// SD6: with the same arrivals each drive ends its requests as it does alone, and the ends come in the order of time.
#[test]
fn sd6_completions_of_several_drives_come_in_the_order_of_time() {
    const REQUESTS: u64 = 60;
    let drives = Drives::new();
    let mut queues: Vec<_> = (0..DRIVES).map(|drive| (drive, 0, drives.queue(drive))).collect();
    queues.iter_mut().for_each(|(_, _, queue)| (0..REQUESTS).for_each(|token| submit(&mut **queue, 0, token)));
    let together = drives.run(&mut queues, |_, _| {});

    let mut alone = Vec::new();
    for drive in 0..DRIVES {
        let drives = Drives::new();
        let mut queue = drives.queue(drive);
        (0..REQUESTS).for_each(|token| submit(&mut *queue, 0, token));
        while queue.in_flight() > 0 {
            for Completion { token, .. } in collect(&mut *queue, Wait::Forever) {
                alone.push(RequestEnd { at_ns: drives.clock.now_ns(), drive, client: 0, token });
            }
        }
    }
    alone.sort_by_key(|end| (end.at_ns, end.drive));
    assert_eq!(together, alone);
    let changes = together.windows(2).filter(|pair| pair[0].drive != pair[1].drive).count();
    assert!(changes > 10, "the ends of the drives alternate {changes} times");
}

/// SD3, SD6: four clients with two requests in flight at each of three drives.
#[test]
fn sd6_a_closed_loop_over_many_queues_repeats_exactly() {
    const CLIENTS: u64 = 4;
    const REQUESTS: u64 = 100;
    let run = || {
        let drives = Drives::new();
        let pairs = (0..CLIENTS).flat_map(|client| (0..DRIVES).map(move |drive| (drive, client)));
        let mut queues: Vec<_> = pairs.map(|(drive, client)| (drive, client, drives.queue(drive))).collect();
        for (_, client, queue) in &mut queues {
            (0..2).for_each(|token| submit(&mut **queue, *client, token));
        }
        let ends = drives.run(&mut queues, |end, queue| {
            if end.token + 2 < REQUESTS {
                submit(queue, end.client, end.token + 2);
            }
        });
        assert!(queues.iter().all(|(_, _, queue)| queue.in_flight() == 0));
        assert_eq!(drives.next_event_ns(), None, "idle drives have no event");
        ends
    };
    let ends = run();
    assert_eq!(ends.len() as u64, CLIENTS * DRIVES as u64 * REQUESTS);
    assert!(ends.is_sorted_by_key(|end| end.at_ns));
    assert_eq!(ends, run());
}

#[test]
fn canary_a_next_event_that_is_too_late_is_found() {
    assert_found(
        sd6_completions_of_several_drives_come_in_the_order_of_time,
        "disk: next event of a drive leaves out known ends",
    );
}
