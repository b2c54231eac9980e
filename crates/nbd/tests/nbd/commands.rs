//! The effect of each command on the disk, and its reply.

use std::os::unix::net::UnixStream;
use std::thread;

use ferrite_disk::Disk;
use ferrite_nbd::REQUEST_MAX_BYTES;
use ferrite_nbd::consts::{chunk, command, command_flag};
use ferrite_nbd::errno::{EINVAL, EIO, ENOSPC, ENOTSUP, EPERM};

use super::client::{Ask, Client, Spy, request_bytes};
use super::disks::{BAD, Probe, SIZE, server};

fn ask(command: u16, flags: u16, at: u64, len: u32) -> Ask {
    Ask { command, flags, at, len }
}

fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8 + 1).collect()
}

/// N2: FUA and zeroing flags reach the disk unchanged, before the request is answered.
#[test]
fn changes_reach_the_disk_with_their_flags() {
    let disk = Probe::new();
    let mut client = Client::structured(&server(disk.clone()));
    let both = command_flag::FUA | command_flag::NO_HOLE;
    for (asked, seen) in [
        (ask(command::WRITE, 0, 512, 1024), "write 512+1024 Cached"),
        (ask(command::WRITE, command_flag::FUA, 512, 512), "write 512+512 Fua"),
        (ask(command::FLUSH, 0, 0, 0), "flush"),
        (ask(command::TRIM, 0, 0, 4096), "trim 0+4096 Cached"),
        (ask(command::TRIM, command_flag::FUA, 0, 4096), "trim 0+4096 Fua"),
        (ask(command::WRITE_ZEROES, 0, 512, 512), "zero 512+512 Cached keep false fast false"),
        (ask(command::WRITE_ZEROES, both, 512, 512), "zero 512+512 Fua keep true fast false"),
        (ask(command::WRITE_ZEROES, command_flag::FAST_ZERO, 0, 512), "zero 0+512 Cached keep false fast true"),
    ] {
        let payload = if asked.command == command::WRITE { pattern(asked.len as usize) } else { Vec::new() };
        assert_eq!(client.call(asked, &payload).errno, 0, "{asked:?}");
        assert_eq!(disk.seen(), [seen]);
    }
    assert_eq!(client.call(ask(command::CACHE, 0, 0, 4096), &[]).errno, 0);
    let slow = ask(command::WRITE_ZEROES, command_flag::FAST_ZERO | command_flag::NO_HOLE, 0, 512);
    assert_eq!(client.call(slow, &[]).errno, ENOTSUP);
    assert_eq!(disk.seen(), [""; 0]);
}

/// N2: when a large write is answered, all of it is in the disk, once, and durable if the client asked for that. The
/// write is only cut between blocks, however its bytes arrive.
#[test]
fn a_large_write_arrives_in_pieces_and_whole() {
    let disk = Probe::new();
    let mut client = Client::structured(&server(disk.clone()));
    let large = ask(command::WRITE, command_flag::FUA, 512, 1 << 20);
    let bytes = [&request_bytes(large)[..], &pattern(1 << 20)].concat();
    for (from, to) in [(0, 1028), (1028, 50_000), (50_000, 50_001), (50_001, 800_000), (800_000, bytes.len())] {
        client.say(&bytes[from..to]);
    }
    assert_eq!(client.reply(0).errno, 0);
    let seen = disk.seen();
    let (last, pieces) = seen.split_last().unwrap();
    // D3: a disk that makes one piece durable does not make another one durable.
    assert_eq!(last, "flush", "{seen:?}");
    let mut next = large.at;
    for line in pieces {
        let place = line.strip_prefix("write ").unwrap().split_once(' ').unwrap().0;
        let (at, len) = place.split_once('+').unwrap();
        assert_eq!(at.parse(), Ok(next), "{seen:?}");
        next += len.parse::<u64>().unwrap();
        assert!(next.is_multiple_of(4096) || next == 512 + (1 << 20), "{seen:?}");
    }
    assert_eq!(next, 512 + (1 << 20));
    assert!(client.call(ask(command::READ, 0, 512, 900_096 / 512 * 512), &[]).data == pattern(1 << 20)[..900_096]);
}

/// Bytes written are the bytes read, with simple and with structured replies, small and of the largest size.
#[test]
fn reads_return_what_was_written() {
    let disk = Probe::new();
    let server = server(disk.clone());
    let (mut structured, mut simple) = (Client::structured(&server), Client::simple(&server));
    for (at, len) in [(0, 512), (4096, 4096), (8 << 20, 300 << 10), (32 << 20, REQUEST_MAX_BYTES)] {
        let bytes = pattern(len);
        assert_eq!(structured.call(ask(command::WRITE, 0, at, len as u32), &bytes).errno, 0);
        let reply = structured.call(ask(command::READ, 0, at, len as u32), &[]);
        assert!(reply.data == bytes, "structured, {len} bytes at {at}");
        let whole = structured.call(ask(command::READ, command_flag::DF, at, len as u32), &[]);
        assert_eq!(whole.chunks, [(chunk::OFFSET_DATA, at, len)], "DF is one chunk");
        assert!(whole.data == bytes, "structured with DF, {len} bytes at {at}");
        assert_eq!(simple.call(ask(command::READ, 0, at, len as u32), &[]).errno, 0);
        assert!(simple.simple_data(len) == bytes, "simple, {len} bytes at {at}");
    }
}

/// A read and a write of zero bytes succeed.
#[test]
fn nothing_is_read_and_written() {
    let mut client = Client::structured(&server(Probe::new()));
    let reply = client.call(ask(command::READ, 0, 512, 0), &[]);
    assert_eq!((reply.errno, reply.chunks.len()), (0, 0));
    assert_eq!(client.call(ask(command::WRITE, 0, 512, 0), &[]).errno, 0);
}

/// A large read sends holes as holes, and the chunks cover it once, in order.
#[test]
fn holes_are_sent_as_holes() {
    let disk = Probe::new();
    let mut client = Client::structured(&server(disk.clone()));
    let bytes = pattern(64 << 10);
    client.call(ask(command::WRITE, 0, (9 << 20) + (64 << 10), 64 << 10), &bytes);
    let reply = client.call(ask(command::READ, 0, 9 << 20, 256 << 10), &[]);
    let holes: Vec<_> = reply.chunks.iter().map(|(kind, _, len)| (*kind, len >> 10)).collect();
    assert_eq!(holes, [(chunk::OFFSET_HOLE, 64), (chunk::OFFSET_DATA, 64), (chunk::OFFSET_HOLE, 128)]);
    let mut expected = vec![0; 256 << 10];
    expected[64 << 10..128 << 10].copy_from_slice(&bytes);
    assert!(reply.data == expected);
}

/// Block status reports runs of one state, one with REQ_ONE, never more than the requested range.
#[test]
fn block_status_tells_extents() {
    let mut client = Client::structured(&server(Probe::new()));
    client.call(ask(command::WRITE, 0, 4096, 8192), &pattern(8192));
    let reply = client.call(ask(command::BLOCK_STATUS, 0, 0, 65536), &[]);
    assert_eq!(reply.extents, [(4096, 3), (8192, 0), (65536 - 12288, 3)]);
    let one = client.call(ask(command::BLOCK_STATUS, command_flag::REQ_ONE, 4096, 65536), &[]);
    assert_eq!(one.extents, [(8192, 0)]);
    let all = client.call(ask(command::BLOCK_STATUS, command_flag::REQ_ONE, 12288, (SIZE - 12288) as u32), &[]);
    assert_eq!(all.extents, [((SIZE - 12288) as u32, 3)], "one extent over more than one question to the disk");
}

/// N1: a failed read has an error, no data of the failed place, and the connection continues.
#[test]
fn failed_reads_are_errors() {
    let server = server(Probe::new());
    let mut client = Client::structured(&server);
    let small = client.call(ask(command::READ, 0, BAD.at - 512, 4096), &[]);
    assert_eq!((small.errno, small.failed_at, small.data.len()), (EIO, Some(BAD.at), 0));
    assert!(small.text.contains("damaged data at byte 1048576"), "{}", small.text);
    client.call(ask(command::WRITE, 0, BAD.at - (512 << 10), 1 << 20), &pattern(1 << 20));
    let large = client.call(ask(command::READ, 0, BAD.at - (512 << 10), 1 << 20), &[]);
    assert_eq!((large.errno, large.failed_at), (EIO, Some(BAD.at)));
    assert!(large.data == pattern(1 << 20)[..large.data.len()] && large.data.len() < 1 << 20);
    let mut simple = Client::simple(&server);
    assert_eq!(simple.call(ask(command::READ, 0, BAD.at, 512), &[]).errno, EIO);
    assert_eq!(simple.call(ask(command::FLUSH, 0, 0, 0), &[]).errno, 0);
}

/// N6: requests that must not reach the disk do not, and each error is the one that the protocol names.
#[test]
fn wrong_requests_never_reach_the_disk() {
    let disk = Probe::new();
    let server = server(disk.clone());
    let (mut structured, mut simple) = (Client::structured(&server), Client::simple(&server));
    let last = SIZE - 512;
    for (asked, errno) in [
        (ask(command::READ, 0, last, 1024), EINVAL),
        (ask(command::READ, 0, u64::MAX - 511, 512), EINVAL),
        (ask(command::WRITE, 0, last, 1024), ENOSPC),
        (ask(command::WRITE, 0, SIZE, 512), ENOSPC),
        (ask(command::WRITE_ZEROES, 0, last, 1024), ENOSPC),
        (ask(command::TRIM, 0, last, 1024), EINVAL),
        (ask(command::CACHE, 0, last, 1024), EINVAL),
        (ask(command::BLOCK_STATUS, 0, last, 1024), EINVAL),
        (ask(command::BLOCK_STATUS, 0, 0, 0), EINVAL),
        (ask(command::READ, 0, 1, 512), EINVAL),
        (ask(command::WRITE, 0, 512, 100), EINVAL),
        (ask(command::TRIM, 0, 512, 100), EINVAL),
        (ask(command::WRITE_ZEROES, 0, 1, 512), EINVAL),
        (ask(command::FLUSH, 0, 512, 0), EINVAL),
        (ask(command::FLUSH, 0, 0, 512), EINVAL),
        (ask(command::READ, command_flag::NO_HOLE, 0, 512), EINVAL),
        (ask(command::READ, 1 << 9, 0, 512), EINVAL),
        (ask(command::WRITE, command_flag::DF, 0, 512), EINVAL),
        (ask(command::TRIM, command_flag::FAST_ZERO, 0, 512), EINVAL),
        (ask(command::READ, 0, 0, REQUEST_MAX_BYTES as u32 + 512), EINVAL),
        (ask(command::WRITE, 0, 0, REQUEST_MAX_BYTES as u32 + 512), EINVAL),
        (ask(8, 0, 0, 512), EINVAL),
        (ask(u16::MAX, 0, 0, 512), EINVAL),
    ] {
        let payload = if asked.command == command::WRITE { vec![1; asked.len as usize] } else { Vec::new() };
        assert_eq!(structured.call(asked, &payload).errno, errno, "structured {asked:?}");
        assert_eq!(simple.call(asked, &payload).errno, errno, "simple {asked:?}");
    }
    let unagreed = [ask(command::BLOCK_STATUS, 0, 0, 512), ask(command::READ, command_flag::DF, 0, 512)];
    unagreed.iter().for_each(|asked| assert_eq!(simple.call(*asked, &[]).errno, EINVAL, "{asked:?}"));
    assert_eq!(disk.seen(), [""; 0]);
    assert_eq!(structured.call(ask(command::FLUSH, command_flag::FUA, 0, 0), &[]).errno, 0, "still in step");
}

/// N6: a read-only disk refuses changes and serves other requests.
#[test]
fn read_only_disks_refuse_changes() {
    let disk = ferrite_disk::ReadOnlyDisk::new(ferrite_disk::RamDisk::new(8192));
    let mut client = Client::structured(&server(std::sync::Arc::new(disk)));
    for number in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
        let payload = if number == command::WRITE { vec![1; 512] } else { Vec::new() };
        assert_eq!(client.call(ask(number, 0, 0, 512), &payload).errno, EPERM);
    }
    assert_eq!(client.call(ask(command::READ, 0, 0, 512), &[]).data, [0; 512]);
    assert_eq!(client.call(ask(command::FLUSH, 0, 0, 0), &[]).errno, 0);
}

/// N1: many requests in one piece are answered once each, in order, and DISC after them loses none. Requests that were
/// received together are answered together.
#[test]
fn requests_in_one_piece_are_all_answered() {
    let server = server(Probe::new());
    let (stream, theirs) = UnixStream::pair().unwrap();
    let (spy, log) = Spy::new(theirs);
    let served = thread::spawn(move || server.serve_stream(spy));
    let mut client = Client::on(stream);
    client.agree();
    let sends_before = log.lock().unwrap().sends;
    let asks: Vec<_> = (0..30_u64).map(|n| ask((n % 2) as u16, 0, n * 4096, 4096)).collect();
    let mut said = Vec::new();
    for asked in &asks {
        said.extend(request_bytes(*asked));
        said.extend(vec![7; if asked.command == command::WRITE { 4096 } else { 0 }]);
    }
    said.extend(request_bytes(ask(command::DISC, 0, 0, 0)));
    client.say(&said);
    for asked in &asks {
        let reply = client.reply(0);
        assert_eq!((reply.cookie, reply.errno), (asked.at, 0));
        assert_eq!(reply.data.len(), if asked.command == command::READ { 4096 } else { 0 });
    }
    assert_eq!(client.rest(), b"");
    assert!(served.join().unwrap().is_ok());
    assert!(log.lock().unwrap().sends - sends_before < 30, "a send for each request");
}

/// A request that arrives byte by byte is one request.
#[test]
fn requests_in_many_pieces_are_one() {
    let disk = Probe::new();
    let mut client = Client::simple(&server(disk.clone()));
    let bytes = [request_bytes(ask(command::WRITE, 0, 512, 512)), vec![9; 512]].concat();
    bytes.iter().for_each(|byte| client.say(&[*byte]));
    assert_eq!(client.reply(0).errno, 0);
    let mut back = [0; 512];
    disk.read(512, &mut back).unwrap();
    assert_eq!(back, [9; 512]);
}
