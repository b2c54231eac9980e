//! N1 and N2 on a disk that fails, and that loses unflushed data when the power fails. A client finds the bytes that
//! the server reported as durable, and a client without an error report had no failure.

use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;

use ferrite_crash::LyingDisk;
use ferrite_disk::{Access, Disk, Geometry, RamDisk, Zeroing};
use ferrite_memory::{Result, Span};
use ferrite_nbd::consts::{command, command_flag::FUA};

use super::client::{Ask, Client, request_bytes};
use super::disks::{Probe, server};
use super::queued_disk::QueuedDisk;

const SIZE: u64 = 1 << 20;
/// Long enough to be written in pieces, in bytes.
const LARGE_BYTES: u32 = 256 << 10;
const FLUSH: Ask = Ask { command: command::FLUSH, flags: 0, at: 0, len: 0 };

/// Returns the requests of the client, each at its own place.
fn plan() -> Vec<Ask> {
    let ask = |command, flags, at, len| Ask { command, flags, at, len };
    vec![
        ask(command::WRITE, 0, 4096, 4096),
        ask(command::WRITE, FUA, 8192, 4096),
        FLUSH,
        ask(command::WRITE, FUA, 128 << 10, LARGE_BYTES),
        ask(command::WRITE_ZEROES, FUA, 16 << 10, 4096),
        ask(command::WRITE, 0, 512 << 10, LARGE_BYTES),
        ask(command::TRIM, FUA, 32 << 10, 4096),
        FLUSH,
        ask(command::WRITE, 0, 24 << 10, 4096),
    ]
}

/// Returns the disk with its initial content: no zeros.
fn before() -> LyingDisk {
    let geometry = Geometry { volatile_cache: true, trim: true, ..RamDisk::new(SIZE).geometry() };
    LyingDisk::from_image(geometry, &[0xbe; SIZE as usize])
}

fn payload(ask: &Ask) -> Vec<u8> {
    if ask.command == command::WRITE { vec![(ask.at >> 12) as u8 | 1; ask.len as usize] } else { Vec::new() }
}

/// Sends all requests of the plan on `disk` at once; returns for each request if it was answered with success.
fn follow(disk: Arc<dyn Disk>) -> Vec<bool> {
    let mut client = Client::structured(&server(disk));
    let plan = plan();
    plan.iter().for_each(|ask| client.ask(*ask, &payload(ask)));
    let answers = plan.iter().map(|ask| {
        let reply = client.reply(0);
        assert_eq!(reply.cookie, ask.at, "N1: one reply each, in order");
        reply.errno == 0
    });
    answers.collect()
}

/// Returns true if a power failure after `done` keeps the data reported as durable: with FUA, or before a flush.
fn is_kept(disk: &LyingDisk, done: &[bool]) -> bool {
    let plan = plan();
    let is_flushed = |at: usize| (at..plan.len()).any(|later| plan[later].command == command::FLUSH && done[later]);
    let promised = |at: &usize| done[*at] && (plan[*at].flags == FUA || is_flushed(*at));
    let asks: Vec<Ask> = (0..plan.len()).filter(promised).map(|at| plan[at]).collect();
    (0..4).all(|seed| {
        let after = disk.crash(seed).snapshot();
        asks.iter().all(|ask| {
            let found = &after[ask.at as usize..][..ask.len as usize];
            match ask.command {
                command::WRITE => found == payload(ask),
                command::WRITE_ZEROES => found.iter().all(|byte| *byte == 0),
                _ => true,
            }
        })
    })
}

/// Returns true if a client can rely on the server's replies, over the disk that `over` makes, whichever request fails.
fn is_reliable<D: Disk + 'static>(over: impl Fn(Arc<LyingDisk>) -> D) -> bool {
    is_reliable_to(|disk| follow(Arc::new(over(disk))))
}

/// Returns true if the replies that `follow` got are reliable, whichever request fails.
fn is_reliable_to(follow: impl Fn(Arc<LyingDisk>) -> Vec<bool>) -> bool {
    for failing in 0.. {
        let disk = Arc::new(before());
        disk.fail_nth(failing);
        let done = follow(Arc::clone(&disk));
        let is_told = done.iter().any(|is_done| !is_done);
        // The number of disk requests of a large write depends on the arrival of its bytes.
        let has_failed = disk.requests() > failing;
        if is_told != has_failed || !is_kept(&disk, &done) {
            return false;
        }
        if !has_failed {
            break;
        }
    }
    true
}

/// A server with a bug, as its clients see it: its requests to the disk differ from the client's.
struct Buggy {
    disk: Arc<LyingDisk>,
    ignores_flush: bool,
    ignores_fua: bool,
    hides_failures: bool,
}

impl Buggy {
    fn on(disk: Arc<LyingDisk>) -> Self {
        Self { disk, ignores_flush: false, ignores_fua: false, hides_failures: false }
    }

    fn access(&self, asked: Access) -> Access {
        if self.ignores_fua { Access::Cached } else { asked }
    }

    fn told(&self, done: Result<()>) -> Result<()> {
        if self.hides_failures { Ok(()) } else { done }
    }
}

impl Disk for Buggy {
    fn geometry(&self) -> Geometry {
        self.disk.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.disk.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.told(self.disk.write(at, from, self.access(access)))
    }

    fn flush(&self) -> Result<()> {
        if self.ignores_flush { Ok(()) } else { self.told(self.disk.flush()) }
    }

    fn trim(&self, span: Span, access: Access) -> Result<()> {
        self.told(self.disk.trim(span, self.access(access)))
    }

    fn write_zeroes(&self, span: Span, how: Zeroing) -> Result<()> {
        self.told(self.disk.write_zeroes(span, Zeroing { access: self.access(how.access), ..how }))
    }
}

/// N1, N2: whichever request of the disk fails, the client gets the error, in step; and data reported as durable is
/// durable.
#[test]
fn crash_keeps_what_was_answered_whichever_request_fails() {
    assert!(is_reliable(Buggy::on));
}

#[test]
fn canary_a_flush_that_does_nothing_is_caught() {
    assert!(!is_reliable(|disk| Buggy { ignores_flush: true, ..Buggy::on(disk) }));
}

#[test]
fn canary_a_fua_that_is_forgotten_is_caught() {
    assert!(!is_reliable(|disk| Buggy { ignores_fua: true, ..Buggy::on(disk) }));
}

#[test]
fn canary_a_failure_that_is_not_told_is_caught() {
    assert!(!is_reliable(|disk| Buggy { hides_failures: true, ..Buggy::on(disk) }));
}

/// Sends each request of the plan to a server of a disk with queues, once the one before it is answered.
fn follow_queued(disk: Arc<LyingDisk>, bug: Option<&'static str>) -> Vec<bool> {
    let mut client = Client::connect_with(&server(QueuedDisk::new(disk, 1)), bug);
    client.agree();
    plan().iter().map(|ask| client.call(*ask, &payload(ask)).errno == 0).collect()
}

/// N1, N2, N19: the same on a disk with queues: a flush covers what was answered before it, and FUA every piece.
#[test]
fn crash_keeps_what_was_answered_by_a_disk_with_queues() {
    assert!(is_reliable_to(|disk| follow_queued(disk, None)));
}

#[test]
fn canary_a_queued_flush_that_does_nothing_is_caught() {
    assert!(!is_reliable_to(|disk| follow_queued(disk, Some("nbd: a queued flush does not reach the disk"))));
}

/// N2: a large write has no reply before its last part has arrived.
#[test]
fn a_large_write_is_not_answered_before_its_last_piece() {
    let disk = Probe::new();
    let mut client = Client::structured(&server(disk.clone()));
    let large = Ask { command: command::WRITE, at: 0, len: LARGE_BYTES, flags: 0 };
    let (most, rest) = (vec![7; LARGE_BYTES as usize - 512], [7; 512]);
    client.say(&[&request_bytes(large)[..], &most].concat());
    client.stream.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let early = client.stream.read(&mut [0]).expect_err("a reply to what is not written");
    assert_eq!(early.kind(), ErrorKind::WouldBlock);
    client.stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client.say(&rest);
    assert_eq!(client.reply(0).errno, 0);
    let mut back = [0; 512];
    disk.read(u64::from(LARGE_BYTES) - 512, &mut back).unwrap();
    assert_eq!(back, rest);
}
