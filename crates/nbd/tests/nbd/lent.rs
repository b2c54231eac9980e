//! N14: data sent without a copy, to slow clients.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use ferrite_disk::{Access, Disk, StatsDisk};
use ferrite_nbd::Options;
use ferrite_nbd::consts::{chunk, command, command_flag};
use tempfile::tempdir;

use super::client::{Ask, Client};
use super::disks::{server, server_with};
use super::shelf::{BLOCK, Shelf};

const DISK_BYTES: u64 = 8 << 20;
const LEN: u32 = 2 << 20;
const READ: Ask = Ask { command: command::READ, flags: 0, at: 1 << 20, len: LEN };

/// Creates a disk that lends, filled with version 1.
fn lender() -> Arc<Shelf> {
    let disk = Shelf::new(DISK_BYTES as usize / BLOCK);
    fill(&*disk, 1);
    disk
}

/// Writes one version to all of the disk.
fn fill(disk: &dyn Disk, version: u64) {
    for at in (0..DISK_BYTES).step_by(64 * BLOCK) {
        disk.write(at, &content(at, 64 * BLOCK, version), Access::Cached).unwrap();
    }
}

/// Returns the content at `at`: each word holds its block and its version.
fn content(at: u64, len: usize, version: u64) -> Vec<u8> {
    let blocks = (at / BLOCK as u64)..(at / BLOCK as u64) + (len / BLOCK) as u64;
    blocks.flat_map(|block| (block << 32 | version).to_le_bytes().repeat(BLOCK / 8)).collect()
}

/// Checks that `data`, read at `at`, holds each block completely in one version.
fn assert_whole_blocks(at: u64, data: &[u8]) {
    for (i, block) in data.chunks(BLOCK).enumerate() {
        let version = u64::from(u32::from_le_bytes(block[..4].try_into().unwrap()));
        let index = at + (i * BLOCK) as u64;
        assert!(block == content(index, block.len(), version), "the block at {index} is torn or another one");
    }
}

/// Data sent without a copy is the requested data, in every form of reply and at every place within blocks; the disk
/// counts it as read.
#[test]
fn what_is_lent_is_what_is_read() {
    let disk = Arc::new(StatsDisk::new(lender()));
    let server = server(disk.clone());
    let (mut structured, mut simple) = (Client::structured(&server), Client::simple(&server));
    for (at, len) in [(0, 64 << 10), (4096, 256 << 10), (8192, (1 << 20) - 4096), (1 << 20, 2 << 20)] {
        let ask = Ask { at, len, ..READ };
        let expected = content(0, DISK_BYTES as usize, 1)[at as usize..][..len as usize].to_vec();
        for flags in [0, command_flag::DF] {
            let before = disk.stats();
            let reply = structured.call(Ask { flags, ..ask }, &[]);
            assert!(reply.errno == 0 && reply.data == expected, "{len} bytes at {at}, flags {flags}");
            assert!(reply.chunks.iter().all(|(kind, ..)| *kind == chunk::OFFSET_DATA));
            if flags == 0 && at == READ.at {
                assert!(reply.chunks.iter().any(|(.., len)| *len > 128 << 10), "only what is copied is sent so short");
            }
            assert_eq!(disk.stats().read_bytes - before.read_bytes, u64::from(len));
        }
        assert_eq!(simple.call(ask, &[]).errno, 0);
        assert!(simple.simple_data(len as usize) == expected, "{len} bytes at {at}, simple");
    }
}

/// N14, N4: a client stops in the middle of a reply while other clients write the same blocks again and again. The
/// writers are not blocked. When the client continues, each block that it receives is of one version.
#[test]
fn a_client_that_stops_reading_gets_whole_blocks_and_holds_up_nobody() {
    let disk = lender();
    let server = server(disk.clone());
    let mut good = Client::structured(&server);
    let mut slow: Vec<Client> = (0..3).map(|_| Client::structured(&server)).collect();
    for client in &mut slow {
        (0..4).for_each(|_| client.ask(READ, &[]));
    }
    for version in 2..12 {
        fill(&*disk, version);
        let bytes = content(READ.at, 64 * BLOCK, version);
        assert_eq!(good.call(Ask { command: command::WRITE, len: bytes.len() as u32, ..READ }, &bytes).errno, 0);
        assert!(good.call(Ask { len: bytes.len() as u32, ..READ }, &[]).data == bytes);
    }
    for mut client in slow {
        for _ in 0..4 {
            let reply = client.reply(0);
            assert_eq!((reply.errno, reply.data.len()), (0, LEN as usize));
            assert_whole_blocks(READ.at, &reply.data);
        }
    }
}

/// N14: many readers and writers at once keep the rule of one version per block.
#[test]
fn readers_beside_writers_get_whole_blocks() {
    let disk = lender();
    let server = server(disk.clone());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| (2..).take_while(|_| !done.load(Ordering::Relaxed)).for_each(|version| fill(&*disk, version)));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let server = &server;
                scope.spawn(move || {
                    let mut client = Client::structured(server);
                    for _ in 0..20 {
                        assert_whole_blocks(READ.at, &client.call(READ, &[]).data);
                    }
                })
            })
            .collect();
        let read: Vec<_> = readers.into_iter().map(thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        assert!(read.iter().all(Result::is_ok));
    });
}

/// N14: a client that disconnects before it has received its replies gets them unchanged; until then its connection,
/// and so its disk, counts as in use.
#[test]
fn replies_outlive_the_good_bye() {
    let disk = Arc::new(StatsDisk::new(lender()));
    let server = server(disk.clone());
    let mut client = Client::structured(&server);
    client.ask(Ask { len: 256 << 10, ..READ }, &[]);
    client.ask(Ask { command: command::DISC, ..Ask::default() }, &[]);
    let mut good = Client::structured(&server);
    while disk.stats().read_bytes < 256 << 10 {
        thread::yield_now();
    }
    (2..12).for_each(|version| fill(&*disk, version));
    assert_eq!(good.call(Ask { len: 4096, ..READ }, &[]).errno, 0);
    assert_eq!(server.connections(), 2);
    assert!(client.reply(0).data == content(READ.at, 256 << 10, 1));
    assert_eq!(client.rest(), b"");
    assert!(client.end().is_ok());
}

/// N8: a client that never receives its replies does not keep the server from stopping.
#[test]
fn a_stop_waits_for_no_loan() {
    let dir = tempdir().unwrap();
    let options = Options { stop_patience: std::time::Duration::from_millis(50), ..Options::default() };
    let listening = server_with(lender(), options).listen_unix(&dir.path().join("socket")).unwrap();
    let mut client = Client::on(UnixStream::connect(listening.path()).unwrap());
    client.agree();
    (0..4).for_each(|_| client.ask(READ, &[]));
    let mut leaving = Client::on(UnixStream::connect(listening.path()).unwrap());
    leaving.agree();
    leaving.ask(Ask { len: 256 << 10, ..READ }, &[]);
    leaving.ask(Ask { command: command::DISC, ..Ask::default() }, &[]);
    assert_eq!(listening.stop(), 0);
}
