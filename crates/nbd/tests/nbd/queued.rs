//! A disk with queues (N17 to N20): many requests of one connection in flight, answered in the order in which they end.

use std::collections::HashMap;
use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use ferrite_disk::{Disk, RamDisk};
use ferrite_memory::Span;
use ferrite_nbd::Options;
use ferrite_nbd::consts::{command, command_flag::DF};
use tempfile::tempdir;

use super::client::{Ask, Client, Reply};
use super::disks::{server, server_with};
use super::queued_disk::QueuedDisk;

const SIZE: u64 = 64 << 20;
/// The length of a piece, in bytes.
const PIECE: u64 = 256 << 10;
const FLUSH: Ask = Ask { command: command::FLUSH, flags: 0, at: 0, len: 0 };
/// So long that a reply that was sent has arrived.
const SOON: Duration = Duration::from_millis(300);

type Queued = QueuedDisk<RamDisk>;

/// Random numbers from a seed, which is printed: a failed test shows it.
struct Random(u64);

impl Random {
    fn new() -> Self {
        let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        println!("seed {seed}");
        Self(seed)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn queued() -> Arc<Queued> {
    QueuedDisk::new(RamDisk::new(SIZE), Random::new().0)
}

fn read(at: u64, len: u32) -> Ask {
    Ask { command: command::READ, at, len, flags: 0 }
}

fn write(at: u64, len: u32) -> Ask {
    Ask { command: command::WRITE, ..read(at, len) }
}

fn content(at: u64, len: u32, version: u64) -> Vec<u8> {
    (at..at + u64::from(len)).map(|at| (at / 512 + version * 7) as u8 | 1).collect()
}

/// Connects with structured replies to a server of `disk`, whose thread has the planted `bug`.
fn connect(disk: &Arc<Queued>, bug: Option<&'static str>) -> Client {
    let mut client = Client::connect_with(&server(disk.clone()), bug);
    client.agree();
    client
}

/// Returns true if a reply arrives soon.
fn is_answered(client: &mut Client) -> bool {
    client.stream.set_read_timeout(Some(SOON)).unwrap();
    let found = client.stream.read(&mut [0; 1]);
    client.stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    match found {
        Ok(count) => count > 0,
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::WouldBlock);
            false
        }
    }
}

/// Returns true if requests are answered while an earlier one hangs.
fn passes_a_hung_request(bug: Option<&'static str>) -> bool {
    let disk = queued();
    disk.write(0, &content(0, 4096, 0), Default::default()).unwrap();
    let mut client = connect(&disk, bug);
    disk.hold(Span::new(0, 512));
    client.ask(read(0, 512), &[]);
    client.ask(write(8192, 512), &content(8192, 512, 1));
    let is_passed = is_answered(&mut client);
    disk.release();
    if is_passed {
        // The first byte of the reply was read.
        assert_eq!(client.simple_data(15)[7..], 8192_u64.to_be_bytes());
        let late = client.reply(0);
        assert_eq!((late.cookie, late.data), (0, content(0, 512, 0)));
        assert_eq!(client.call(read(8192, 512), &[]).data, content(8192, 512, 1));
    }
    is_passed
}

/// N17: a request that hangs does not hold back the requests behind it.
#[test]
fn n17_a_hung_request_holds_back_no_other() {
    assert!(passes_a_hung_request(None));
}

#[test]
fn canary_one_request_at_a_time_is_found() {
    assert!(!passes_a_hung_request(Some("nbd: one request in flight")));
}

/// A model of the blocks of a disk, and random requests to blocks without requests in flight.
struct Model {
    random: Random,
    version: HashMap<u64, u64>,
    /// The request of each busy block; its cookie is its offset.
    busy: HashMap<u64, Ask>,
}

/// Blocks of the model, each longer than two pieces.
const BLOCK: u64 = 1 << 20;

impl Model {
    fn ask(&mut self) -> Option<(Ask, Vec<u8>)> {
        let at = self.random.below(SIZE / BLOCK) * BLOCK;
        if self.busy.contains_key(&at) {
            return None;
        }
        let lens = [512, 4096, 40 << 10, 300 << 10, BLOCK as u32];
        let len = lens[self.random.below(5) as usize];
        let ask = if self.random.below(2) == 0 { read(at, len) } else { write(at, len) };
        self.busy.insert(at, ask);
        if ask.command == command::READ {
            return Some((ask, Vec::new()));
        }
        let version = self.random.below(100) + 1;
        // A shorter write leaves the older end, so each block is written whole or has one length.
        let ask = Ask { len: BLOCK as u32, ..ask };
        self.busy.insert(at, ask);
        self.version.insert(at, version);
        Some((ask, content(at, BLOCK as u32, version)))
    }

    fn meet(&mut self, reply: &Reply, data: &[u8]) {
        let ask = self.busy.remove(&reply.cookie).expect("a reply to no request in flight");
        assert_eq!(reply.errno, 0);
        if ask.command == command::READ {
            let wanted = match self.version.get(&ask.at) {
                Some(version) => content(ask.at, ask.len, *version),
                None => vec![0; ask.len as usize],
            };
            assert!(data == wanted, "{ask:?}");
        }
    }
}

/// N1, N17: each of many random requests gets one reply with its own data, whatever the order of their ends.
#[test]
fn n17_every_request_gets_its_own_reply() {
    for structured in [true, false] {
        let disk = queued();
        let server = server(disk.clone());
        let mut client = if structured { Client::structured(&server) } else { Client::simple(&server) };
        let mut model = Model { random: Random::new(), version: HashMap::new(), busy: HashMap::new() };
        for _ in 0..20 {
            let mut asks: Vec<_> = (0..20).filter_map(|_| model.ask()).collect();
            // The client receives only afterwards, so it sends the long payloads before long replies fill the socket.
            asks.sort_by_key(|(ask, _)| ask.command == command::READ);
            asks.iter().for_each(|(ask, payload)| client.ask(*ask, payload));
            while !model.busy.is_empty() {
                receive(&mut client, &mut model, structured);
            }
        }
        assert!(disk.state().most_in_flight > 8, "many are in flight at once");
    }
}

fn receive(client: &mut Client, model: &mut Model, structured: bool) {
    // A simple reply does not say how much data follows: its request does.
    let reply = client.reply(0);
    if structured {
        let mut data = vec![0; reply.data.len()];
        for (_, at, len) in &reply.chunks {
            // Pieces arrive in any order, and the reply's data is in the order of arrival.
            let before: usize = reply.chunks.iter().take_while(|chunk| chunk.1 != *at).map(|chunk| chunk.2).sum();
            data[(at - reply.cookie) as usize..][..*len].copy_from_slice(&reply.data[before..][..*len]);
        }
        return model.meet(&reply, &data);
    }
    let ask = model.busy[&reply.cookie];
    let data = if ask.command == command::READ { client.simple_data(ask.len as usize) } else { Vec::new() };
    model.meet(&reply, &data);
}

/// Returns the largest numbers of requests and of bytes in flight for a client that sends many.
fn most_in_flight(bug: Option<&'static str>, ask: impl Fn(u64) -> Ask + Send + 'static, count: u64) -> (usize, usize) {
    let disk = queued();
    let mut client = connect(&disk, bug);
    disk.hold(Span::new(0, SIZE));
    let mut sender = Client::bare(client.stream.try_clone().unwrap());
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            let ask = ask(number);
            let payload = if ask.command == command::WRITE { vec![1; ask.len as usize] } else { Vec::new() };
            sender.ask(ask, &payload);
        }
    });
    // Until no more requests reach the disk.
    let mut before = 0;
    loop {
        std::thread::sleep(SOON);
        let now = disk.wait_for(|state| state.in_flight > 0).in_flight;
        if std::mem::replace(&mut before, now) == now {
            break;
        }
    }
    disk.release();
    (0..count).for_each(|_| assert_eq!(client.reply(0).errno, 0));
    sending.join().unwrap();
    let state = disk.state();
    assert_eq!((state.in_flight, state.bytes), (0, 0));
    (state.most_in_flight, state.most_bytes)
}

/// N18: a connection has at most 128 requests and 16 MiB in flight, and the requests beyond are answered later.
#[test]
fn n18_requests_in_flight_are_bounded() {
    assert_eq!(most_in_flight(None, |number| read(number * 512, 512), 400).0, 128);
    assert_eq!(most_in_flight(None, |number| write(number << 20, 1 << 20), 40).1, 16 << 20);
}

#[test]
fn canary_requests_without_bound_are_found() {
    let bug = Some("nbd: requests in flight have no bound");
    assert!(most_in_flight(bug, |number| read(number * 512, 512), 400).0 > 128);
}

/// Returns true if a write of two pieces is answered while its second piece is in flight.
fn is_answered_early(bug: Option<&'static str>) -> bool {
    let disk = queued();
    let mut client = connect(&disk, bug);
    disk.hold(Span::new(PIECE, PIECE));
    client.ask(write(0, 2 * PIECE as u32), &content(0, 2 * PIECE as u32, 3));
    let is_early = is_answered(&mut client);
    disk.release();
    if !is_early {
        assert_eq!(client.reply(0).errno, 0);
        let back = client.call(Ask { flags: DF, ..read(0, 2 * PIECE as u32) }, &[]);
        assert!(back.data == content(0, 2 * PIECE as u32, 3) && back.chunks.len() == 1, "DF forbids to cut it");
    }
    is_early
}

/// N19: a request that is cut is answered when its last piece ends.
#[test]
fn n19_a_request_is_answered_when_its_last_piece_ends() {
    assert!(!is_answered_early(None));
}

#[test]
fn canary_a_reply_before_the_last_piece_is_found() {
    assert!(is_answered_early(Some("nbd: a request is answered when its first piece ends")));
}

/// N1, N19: if one piece of a read fails, the reply ends with the error and its offset; other requests go on.
#[test]
fn n19_a_failed_piece_fails_its_request_alone() {
    let disk = queued();
    let mut client = connect(&disk, None);
    disk.spoil(PIECE + 512);
    for _ in 0..20 {
        let reply = client.call(read(0, 4 * PIECE as u32), &[]);
        assert_eq!((reply.errno, reply.failed_at), (5, Some(PIECE + 512)));
        assert_eq!(client.call(read(2 * PIECE, 4096), &[]).errno, 0);
    }
    let invalid = client.call(write(SIZE, 4096), &[0; 4096]);
    assert_ne!(invalid.errno, 0, "N6: it is refused, and its payload skipped");
    assert_eq!(client.call(FLUSH, &[]).errno, 0);
    assert_eq!(disk.state().flushes, 1);
}

/// Returns the number of replies that a client gets that disconnects while four requests hang.
fn replies_after_disconnecting(bug: Option<&'static str>) -> usize {
    let disk = queued();
    let mut client = connect(&disk, bug);
    disk.hold(Span::new(0, SIZE));
    (0..4).for_each(|number| client.ask(read(number * 4096, 512), &[]));
    client.ask(Ask { command: command::DISC, ..Ask::default() }, &[]);
    disk.wait_for(|state| state.in_flight == 4);
    std::thread::sleep(SOON);
    disk.release();
    let bytes = client.rest().len();
    assert!(client.end().is_ok());
    disk.wait_for(|state| state.queues == 0 && state.in_flight == 0);
    bytes / (20 + 8 + 512)
}

/// N20: a client that disconnects gets the replies to its requests in flight first.
#[test]
fn n20_a_disconnect_waits_for_requests_in_flight() {
    assert_eq!(replies_after_disconnecting(None), 4);
}

#[test]
fn canary_a_disconnect_that_does_not_wait_is_found() {
    assert!(replies_after_disconnecting(Some("nbd: a session ends amid requests")) < 4);
}

/// N20: a client that vanishes amid requests, some of them received in part, leaves no queue, no request and no thread.
#[test]
fn n20_a_client_that_vanishes_leaves_nothing() {
    let disk = queued();
    let server = server(disk.clone());
    for _ in 0..4 {
        let mut client = Client::structured(&server);
        disk.hold(Span::new(0, SIZE));
        (0..8).for_each(|number| client.ask(read(number << 20, 1 << 20), &[]));
        client.ask(write(16 << 20, 1 << 20), &[1; 300 << 10]);
        disk.wait_for(|state| state.in_flight > 30);
        let served = client.served.take().unwrap();
        drop(client);
        std::thread::sleep(Duration::from_millis(20));
        disk.release();
        assert!(served.join().unwrap().is_err());
        let state = disk.state();
        assert_eq!((state.queues, state.in_flight, server.connections()), (0, 0, 0));
    }
}

/// N8, N20: a server that stops answers the requests that it received, and a hung disk does not keep it.
#[test]
fn n20_a_stop_answers_what_is_in_flight() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let disk = queued();
    let listening = server(disk.clone()).listen_unix(&path).unwrap();
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.agree();
    disk.hold(Span::new(0, SIZE));
    (0..200).for_each(|number| client.ask(read(number * 512, 512), &[]));
    disk.wait_for(|state| state.in_flight == 128);
    let stopping = std::thread::spawn(move || listening.stop());
    while UnixStream::connect(&path).is_ok() {
        std::thread::yield_now();
    }
    disk.release();
    (0..200).for_each(|_| assert_eq!(client.reply(0).errno, 0));
    assert_eq!((client.rest(), stopping.join().unwrap()), (Vec::new(), 0));

    let options = Options { stop_patience: Duration::from_millis(50), ..Options::default() };
    let listening = server_with(disk.clone(), options).listen_unix(&path).unwrap();
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.agree();
    disk.hold(Span::new(0, SIZE));
    client.ask(read(0, 512), &[]);
    disk.wait_for(|state| state.in_flight == 1);
    assert_eq!(listening.stop(), 1, "it waits for its disk");
    disk.release();
    disk.wait_for(|state| state.queues == 0);
}

/// N15: a reply that no buffer holds whole is read by pieces, and equals the content.
#[test]
fn a_long_simple_reply_is_what_lies_there() {
    let disk = queued();
    let len = 32 << 20;
    disk.write(0, &content(0, len, 5), Default::default()).unwrap();
    let mut client = Client::simple(&server(disk));
    assert_eq!(client.call(read(0, len), &[]).errno, 0);
    assert!(client.simple_data(len as usize) == content(0, len, 5));
    assert_eq!(client.call(read(512, 0), &[]).errno, 0, "an empty read is answered");
}
