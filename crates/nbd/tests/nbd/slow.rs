//! Clients that request much data and receive it late (N3, N15), or that use places and stay idle (N16).

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ferrite_disk::{Access, Disk, Geometry, RamDisk};
use ferrite_memory::{Error, Result};
use ferrite_nbd::consts::{command, command_flag};
use ferrite_nbd::{End, Options, Server};

use super::client::{Ask, Client};
use super::disks::{BAD, Probe, server, server_with};

const LONG: u32 = 32 << 20;

fn content(at: u64, len: usize) -> Vec<u8> {
    (at..at + len as u64).map(|at| (at / 512 % 251) as u8).collect()
}

/// N15: a reply that is too long to be held is read while it is sent, and equals the disk's content.
#[test]
fn a_long_reply_is_what_lies_there() {
    let disk = Probe::new();
    disk.write(8 << 20, &content(8 << 20, LONG as usize), Access::Cached).unwrap();
    let server = server(disk);
    let ask = Ask { command: command::READ, at: 8 << 20, len: LONG, ..Ask::default() };
    let mut simple = Client::simple(&server);
    assert_eq!(simple.call(ask, &[]).errno, 0);
    assert!(simple.simple_data(LONG as usize) == content(ask.at, LONG as usize));
    let mut structured = Client::structured(&server);
    let reply = structured.call(Ask { flags: command_flag::DF, ..ask }, &[]);
    assert_eq!((reply.errno, reply.chunks.len()), (0, 1), "DF forbids to cut it");
    assert!(reply.data == content(ask.at, LONG as usize));
}

/// N1: if a part of a long reply cannot be read, the client gets an error, and the connection continues.
#[test]
fn a_long_reply_that_cannot_be_read_is_an_error() {
    let server = server(Probe::new());
    let mut client = Client::simple(&server);
    let ask = Ask { command: command::READ, at: BAD.at - (1 << 20) + 512, len: LONG, ..Ask::default() };
    assert_ne!(client.call(ask, &[]).errno, 0);
    assert_eq!(client.call(Ask { command: command::FLUSH, ..Ask::default() }, &[]).errno, 0);
}

/// A disk whose last sectors can be read a limited number of times.
struct Fading {
    ram: RamDisk,
    reads_left: AtomicUsize,
}

impl Disk for Fading {
    fn geometry(&self) -> Geometry {
        self.ram.geometry()
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let is_last = at + into.len() as u64 == self.ram.geometry().size;
        if is_last && self.reads_left.fetch_sub(1, Ordering::Relaxed) == 0 {
            return Err(Error::Damaged(at));
        }
        self.ram.read(at, into)
    }

    fn write(&self, at: u64, from: &[u8], access: Access) -> Result<()> {
        self.ram.write(at, from, access)
    }

    fn flush(&self) -> Result<()> {
        Ok(())
    }
}

/// N1: only data can follow the head of a reply, so an error ends the connection.
#[test]
fn a_reply_that_fails_amid_its_data_ends_the_connection() {
    let disk = Fading { ram: RamDisk::new(u64::from(LONG)), reads_left: AtomicUsize::new(1) };
    let server = server(Arc::new(disk));
    let mut client = Client::simple(&server);
    client.ask(Ask { command: command::READ, at: 0, len: LONG, ..Ask::default() }, &[]);
    assert!(client.rest().len() < LONG as usize);
    assert!(matches!(client.end(), Err(End::Torn)));
}

/// Returns a client that has chosen its export, if the server has a place.
fn admitted(server: &Server) -> Option<Client> {
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let server = server.clone();
    thread::spawn(move || server.serve_stream(theirs));
    stream.read_exact(&mut [0; 18]).ok()?;
    stream.write_all(&3_u32.to_be_bytes()).unwrap();
    let mut client = Client::bare(stream);
    client.agree();
    Some(client)
}

/// N16: a client that requests nothing, and a client that does not receive its reply, make room for others. Clients
/// that were idle for less than the limit do not.
#[test]
fn idle_clients_make_room() {
    let options = |idle_least| Options { connections_max: 2, idle_least, ..Options::default() };
    for (idle_least, makes_room) in [(Duration::ZERO, true), (Duration::from_secs(3600), false)] {
        let server = server_with(Probe::new(), options(idle_least));
        let (mut silent, mut stuck) = (Client::simple(&server), Client::simple(&server));
        for client in [&mut silent, &mut stuck] {
            // After an answer the server knows that the client has chosen its export.
            assert_eq!(client.call(Ask { command: command::FLUSH, ..Ask::default() }, &[]).errno, 0);
        }
        stuck.ask(Ask { command: command::READ, at: 8 << 20, len: LONG, ..Ask::default() }, &[]);
        if !makes_room {
            assert!(admitted(&server).is_none(), "both are at work");
            continue;
        }
        // The server may still be at work for one of them: more clients connect until the place of each was reused. A
        // byte to a connection that was cut is an error.
        let mut others = Vec::new();
        while silent.stream.write_all(&[0]).is_ok() || stuck.stream.write_all(&[0]).is_ok() {
            others.extend(admitted(&server));
        }
        assert!(stuck.rest().len() < LONG as usize, "it is cut amid its reply");
    }
}
