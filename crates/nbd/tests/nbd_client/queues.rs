//! Queues that share a connection (C7, C8), to a server whose disk ends requests in any order.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use ferrite_disk::{Access, Disk, Op, Queue, RamDisk, Request, Wait};
use ferrite_memory::planted::plant;
use ferrite_memory::{Error, Span};
use ferrite_nbd::client::{ConnectOptions, NbdDisk};
use rustix::event::{PollFd, PollFlags, poll};

use super::puppet::{self, Manners, Puppet};
use super::queued_disk::QueuedDisk;
use super::stage::{SIZE, Stage};

fn random_disk() -> Arc<QueuedDisk<RamDisk>> {
    let seed = UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    println!("seed {seed}");
    QueuedDisk::new(RamDisk::new(SIZE), seed)
}

fn open(disk: &NbdDisk) -> Box<dyn Queue> {
    disk.queue().unwrap().expect("a connection has queues")
}

fn read(token: u64, at: u64, len: usize) -> Request {
    Request { token, op: Op::Read, span: Span::new(at, len as u64), buffer: vec![0; len] }
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)], Some(&now)).unwrap() > 0
}

/// Keeps random requests to `blocks` in flight, each block with one at most, and compares every read with a model.
fn model(queue: &mut dyn Queue, blocks: Span, mut random: u64) {
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let (mut fills, mut busy, mut done) = (HashMap::new(), HashMap::new(), Vec::new());
    for step in 0..600 {
        let at = blocks.at + next(blocks.len / 8192) * 8192;
        let fill = next(255) as u8 + 1;
        let request = match next(5) {
            0 | 1 => read(at, at, 8192),
            2 => Request { token: 1, op: Op::Flush, span: Span::new(0, 0), buffer: Vec::new() },
            _ => Request { op: Op::Write(Access::Fua), buffer: vec![fill; 8192], ..read(at, at, 0) },
        };
        if !busy.contains_key(&request.token) && step < 500 {
            busy.insert(request.token, (request.op, *fills.get(&at).unwrap_or(&0)));
            if request.op == Op::Write(Access::Fua) {
                fills.insert(at, fill);
            }
            done.extend(queue.submit(request));
        }
        let waits = [Wait::No, Wait::AtMost(Duration::from_micros(200)), Wait::Forever];
        let wait = if step < 500 { waits[(next(8) / 3) as usize] } else { Wait::Forever };
        queue.collect(wait, &mut done).unwrap();
        for completion in done.drain(..) {
            completion.result.unwrap();
            let (op, fill) = busy.remove(&completion.token).expect("a completion of another queue");
            if op == Op::Read {
                assert!(completion.buffer.iter().all(|byte| *byte == fill), "at {}", completion.token);
            }
        }
    }
    assert_eq!((queue.in_flight(), busy.len()), (0, 0));
}

/// C7: queues of four threads share a connection with a thread that makes blocking calls. Each gets its completions.
#[test]
fn c7_each_queue_completes_its_own_requests() {
    let served = random_disk();
    let stage = Stage::of(served.clone());
    let disk = stage.connect();
    thread::scope(|scope| {
        for number in 0..4_u64 {
            let disk = &disk;
            scope.spawn(move || model(&mut *open(disk), Span::new(number << 20, 1 << 20), number));
        }
        let mut back = vec![0; 64 << 10];
        (0..100).for_each(|_| disk.read(8 << 20, &mut back).unwrap());
    });
    assert!(served.state().most_in_flight > 4, "many are in flight");
}

/// Returns the tokens that two queues collect, which have one request each. The second queue collects first.
fn collected(bug: Option<&str>) -> [Vec<u64>; 2] {
    let stage = Stage::new();
    let disk = stage.connect();
    let _bug = bug.map(plant);
    let mut queues = [open(&disk), open(&disk)];
    for (token, queue) in (1..).zip(&mut queues) {
        assert!(queue.submit(read(token, 0, 512)).is_none());
    }
    let mut collect = |number: usize| {
        let (queue, mut done) = (&mut queues[number], Vec::new());
        // With the planted bug one queue has both completions, and its own counts are wrong.
        let collect = std::panic::AssertUnwindSafe(|| queue.collect(Wait::AtMost(Duration::from_secs(5)), &mut done));
        let _ = std::panic::catch_unwind(collect);
        done.iter().map(|completion| completion.token).collect::<Vec<_>>()
    };
    let second = collect(1);
    [collect(0), second]
}

#[test]
fn c7_a_queue_collects_no_other_completion() {
    assert_eq!(collected(None), [vec![1], vec![2]]);
}

#[test]
fn canary_a_completion_in_the_wrong_queue_is_found() {
    assert_ne!(collected(Some("nbd: the first queue gets all completions")), [vec![1], vec![2]]);
}

/// Returns true if a queue's descriptor is readable after another caller received its reply.
fn is_woken(bug: Option<&str>) -> bool {
    let served = random_disk();
    let stage = Stage::of(served.clone());
    let disk = stage.connect();
    let _bug = bug.map(plant);
    let mut queue = open(&disk);
    assert!(!is_readable(queue.descriptor()), "nothing is in flight");
    served.hold(Span::new(0, 512));
    assert!(queue.submit(read(1, 0, 512)).is_none());
    assert!(!is_readable(queue.descriptor()), "the request has not ended");
    served.release();
    served.wait_for(|state| state.in_flight == 0);
    // Replies to these reads come behind the queue's, in the one stream.
    let mut others = open(&disk);
    for token in 0..20 {
        assert!(others.submit(read(token, 4096, 512)).is_none());
        let end = Instant::now() + Duration::from_secs(60);
        while others.collect(Wait::AtMost(Duration::from_secs(1)), &mut Vec::new()).unwrap() == 0 {
            assert!(Instant::now() < end);
        }
    }
    let is_woken = is_readable(queue.descriptor());
    let mut done = Vec::new();
    assert_eq!(queue.collect(Wait::No, &mut done).unwrap(), 1);
    assert_eq!((done[0].token, queue.in_flight()), (1, 0));
    assert!(!is_readable(queue.descriptor()), "everything is collected");
    is_woken
}

/// C8: also then, and a descriptor without completions is not readable.
#[test]
fn c8_a_completion_that_another_caller_received_wakes_its_queue() {
    assert!(is_woken(None));
}

#[test]
fn canary_a_queue_that_is_not_woken_is_found() {
    assert!(!is_woken(Some("nbd: a completion does not wake its queue")));
}

/// C8: a reply that no caller has received makes the descriptor readable too.
#[test]
fn c8_a_reply_wakes_a_queue_that_nobody_serves() {
    let stage = Stage::new();
    let disk = stage.connect();
    let mut queue = open(&disk);
    assert!(queue.submit(read(1, 0, 512)).is_none());
    let end = Instant::now() + Duration::from_secs(60);
    while !is_readable(queue.descriptor()) {
        assert!(Instant::now() < end);
        thread::yield_now();
    }
    let mut done = Vec::new();
    while done.is_empty() {
        queue.collect(Wait::No, &mut done).unwrap();
    }
    assert_eq!(done.len(), 1);
}

/// C1: a wait with a limit ends without completions, one without a limit at the loss of the connection, and a dropped
/// queue keeps the connection open until its requests have ended.
#[test]
fn a_queue_waits_as_asked() {
    let served = random_disk();
    let mut stage = Stage::of(served.clone());
    let disk = stage.connect();
    served.hold(Span::new(0, 512));
    let (mut queue, mut dropped) = (open(&disk), open(&disk));
    assert!(queue.submit(read(1, 0, 512)).is_none());
    assert!(dropped.submit(read(2, 0, 512)).is_none());
    assert_eq!(queue.collect(Wait::AtMost(Duration::from_millis(20)), &mut Vec::new()).unwrap(), 0);
    drop(disk);
    thread::scope(|scope| {
        let dropping = scope.spawn(move || drop(dropped));
        thread::sleep(Duration::from_millis(50));
        assert!(!dropping.is_finished(), "its request has not ended");
        served.release();
    });
    let mut done = Vec::new();
    assert_eq!(queue.collect(Wait::Forever, &mut done).unwrap(), 1);
    assert!(done[0].result.is_ok());
    served.spoil(8192);
    done.clear();
    done.extend(queue.submit(read(3, 8192, 512)));
    queue.collect(Wait::Forever, &mut done).unwrap();
    assert!(matches!(done[0].result, Err(Error::Io { .. })), "the server reports the failure");
    assert_eq!(stage.listening.take().unwrap().stop(), 0);
    done.extend(queue.submit(read(4, 0, 512)));
    queue.collect(Wait::Forever, &mut done).unwrap();
    assert!(done[1].result.is_err(), "the connection is lost");
}

/// Returns true if the descriptors of two queues are readable after the connection was lost and both have collected.
fn is_readable_after_a_loss(bug: Option<&str>) -> bool {
    let mut stage = Stage::new();
    let disk = stage.connect();
    let mut queues = [open(&disk), open(&disk)];
    assert_eq!(stage.listening.take().unwrap().stop(), 0);
    let _bug = bug.map(plant);
    queues.iter_mut().any(|queue| {
        let mut done: Vec<_> = queue.submit(read(1, 0, 512)).into_iter().collect();
        queue.collect(Wait::Forever, &mut done).unwrap();
        assert!(done[0].result.is_err(), "the connection is lost");
        is_readable(queue.descriptor())
    })
}

/// C8: the owner of a queue whose connection is lost is not woken again and again.
#[test]
fn c8_a_lost_connection_wakes_its_queues_once() {
    assert!(!is_readable_after_a_loss(None));
}

#[test]
fn canary_a_queue_that_a_lost_connection_wakes_for_ever_is_found() {
    assert!(is_readable_after_a_loss(Some("nbd: a queue watches a lost connection")));
}

/// C9: writes to a server that reads nothing are submitted and not waited for. When it reads again, all are complete.
#[test]
fn c9_a_server_that_reads_nothing_holds_no_submitter_up() {
    let (goes_on, waits) = std::sync::mpsc::channel();
    let manners = Manners { structured: false, flags: 1, size: puppet::SIZE, sizes: None };
    let puppet = Puppet::polite(manners, move |mut stream| {
        waits.recv().unwrap();
        for _ in 0..8 {
            let seen = puppet::request(&mut stream).expect("a request");
            stream.read_exact(&mut vec![0; seen.len as usize]).unwrap();
            stream.write_all(&puppet::simple(seen.cookie, 0)).unwrap();
        }
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    let mut queue = open(&disk);
    let begun = Instant::now();
    for token in 0..8 {
        let request = Request { op: Op::Write(Access::Cached), buffer: vec![7; 1 << 20], ..read(token, 0, 0) };
        assert!(queue.submit(request).is_none());
        assert_eq!(queue.collect(Wait::No, &mut Vec::new()).unwrap(), 0);
    }
    assert_eq!(queue.collect(Wait::AtMost(Duration::from_millis(20)), &mut Vec::new()).unwrap(), 0);
    assert!(begun.elapsed() < Duration::from_secs(20) && !is_readable(queue.descriptor()));
    goes_on.send(()).unwrap();
    let mut done = Vec::new();
    while done.len() < 8 {
        poll(&mut [PollFd::from_borrowed_fd(queue.descriptor(), PollFlags::IN)], None).unwrap();
        queue.collect(Wait::No, &mut done).unwrap();
    }
    assert!(done.iter().all(|completion| completion.result.is_ok()));
    drop(queue);
    puppet.end();
}
