//! The server over TCP, on loopback: the clients that it accepts, and the clients that it drops.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ferrite_disk::{Access, Disk, RamDisk};
use ferrite_nbd::client::{ConnectOptions, NbdDisk};
use ferrite_nbd::consts::command;
use ferrite_nbd::{ListenError, Network, Options, TcpOptions};

use super::client::{Ask, Client};
use super::disks::{Probe, server, server_with};
use super::programs::run;

pub const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

/// Converts a TCP stream for the test's client, which works on any socket.
pub fn on_tcp(stream: TcpStream) -> UnixStream {
    UnixStream::from(OwnedFd::from(stream))
}

/// Waits for an effect of another thread.
pub fn until(what: &str, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::yield_now();
    }
}

/// The server reports its port; programs and the client of this project are served like over a Unix socket.
#[test]
fn it_serves_over_tcp() {
    let disk = Arc::new(RamDisk::new(16 << 20));
    let server = server(disk.clone());
    let listening = server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap();
    let uri = format!("nbd://{}/disk0", listening.address());
    assert!(run("nbdinfo", "libnbd-bin", &["--size", &uri]).contains("16777216"));
    let shown = run("qemu-io", "qemu-utils", &["-f", "raw", "-c", "write -P 7 1M 1M", "-c", "read -P 7 1M 1M", &uri]);
    assert!(!shown.contains("failed"), "{shown}");
    let client = NbdDisk::connect(&uri, &ConnectOptions::default()).unwrap();
    client.write(0, &[3; 4096], Access::Fua).unwrap();
    let mut bytes = [0; 4096];
    disk.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [3; 4096]);
    assert_eq!(listening.stop(), 0);
    assert!(client.read(0, &mut bytes).is_err());
}

/// N12: a client from a forbidden address is rejected without a byte; an allowed client connects beside it.
#[test]
fn addresses_that_are_not_allowed_are_turned_away() {
    let server = server(Probe::new());
    let listen = |allow: &[&str]| {
        let allow = allow.iter().map(|network| network.parse::<Network>().unwrap()).collect();
        server.listen_tcp(LOOPBACK, TcpOptions { allow, tls: None }).unwrap()
    };
    let (closed, open) = (listen(&["10.0.0.0/8", "::1", "127.0.0.2"]), listen(&["::1", "127.0.0.0/8"]));
    let mut stranger = TcpStream::connect(closed.address()).unwrap();
    let mut said = Vec::new();
    // A reset instead of an end has the same meaning.
    let _ = stranger.read_to_end(&mut said);
    assert_eq!(said, b"");
    let mut friend = Client::on(on_tcp(TcpStream::connect(open.address()).unwrap()));
    friend.agree();
    assert_eq!(friend.call(Ask { command: command::FLUSH, ..Ask::default() }, &[]).errno, 0);
    assert_eq!(server.connections(), 1);
}

/// N9: connections that were opened and left half open end, and free their places.
#[test]
fn half_open_connections_end() {
    let options = Options { handshake_timeout: Duration::from_millis(500), ..Options::default() };
    let server = server_with(Probe::new(), options);
    let listening = server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap();
    let mut silent: Vec<_> = (0..8).map(|_| TcpStream::connect(listening.address()).unwrap()).collect();
    // The server may have dropped the client by now.
    let _ = silent[0].write_all(&[0, 0]);
    for stream in &mut silent {
        let mut said = Vec::new();
        let _ = stream.read_to_end(&mut said);
        assert_eq!(said.len(), 18, "the greeting and then the end");
    }
    until("the places are given back", || server.connections() == 0);
}

/// N13: strangers that fill every TCP place with half-open connections exclude no client, because the oldest of them is
/// cut. Local clients do not exclude clients of the network either.
#[test]
fn each_door_has_places_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = server_with(Probe::new(), Options { connections_max: 2, ..Options::default() });
    let (unix, tcp) = (server.listen_unix(&path).unwrap(), server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap());
    let connect = || TcpStream::connect(tcp.address()).unwrap();
    let mut strangers = [connect(), connect()];
    strangers.iter_mut().for_each(|stranger| stranger.read_exact(&mut [0; 18]).unwrap());
    let mut third = connect();
    third.read_exact(&mut [0; 18]).expect("a third has the place of the first");
    assert_eq!(strangers[0].read(&mut [0]).unwrap_or(0), 0, "which is cut");
    let mut local = [&path; 2].map(|path| Client::on(UnixStream::connect(path).unwrap()));
    for client in &mut local {
        client.agree();
        assert_eq!(client.call(Ask { command: command::FLUSH, ..Ask::default() }, &[]).errno, 0);
    }
    assert_eq!(UnixStream::connect(&path).unwrap().read(&mut [0]).unwrap_or(0), 0, "nor has a third here");
    drop((strangers, third));
    until("their places are given back", || server.connections() == 2);
    Client::on(on_tcp(connect())).agree();
    assert_eq!(unix.stop(), 0);
}

/// A client that vanishes in the middle of a request harms no other client.
#[test]
fn a_client_that_vanishes_is_forgotten() {
    let server = server(Probe::new());
    let listening = server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap();
    let mut good = Client::on(on_tcp(TcpStream::connect(listening.address()).unwrap()));
    good.agree();
    let mut gone = Client::on(on_tcp(TcpStream::connect(listening.address()).unwrap()));
    gone.agree();
    gone.ask(Ask { command: command::WRITE, at: 0, len: 1 << 20, ..Ask::default() }, &[1; 100]);
    drop(gone);
    until("its place is given back", || server.connections() == 1);
    assert_eq!(good.call(Ask { command: command::FLUSH, ..Ask::default() }, &[]).errno, 0);
}

/// The error names an address that is in use.
#[test]
fn a_taken_address_is_told() {
    let taken = TcpListener::bind(LOOPBACK).unwrap();
    let address = taken.local_addr().unwrap();
    let error = server(Probe::new()).listen_tcp(address, TcpOptions::default()).err().expect("it listens");
    assert!(
        matches!(error, ListenError::Address { .. }) && error.to_string().contains(&address.to_string()),
        "{error}"
    );
}

/// N8: one stop closes both listening sockets of a server, and disconnects idle clients of either.
#[test]
fn stopping_closes_every_door() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = server(Probe::new());
    let (unix, tcp) = (server.listen_unix(&path).unwrap(), server.listen_tcp(LOOPBACK, TcpOptions::default()).unwrap());
    let mut idle = Client::on(UnixStream::connect(&path).unwrap());
    idle.agree();
    let address = tcp.address();
    assert_eq!(tcp.stop(), 0);
    assert_eq!(idle.rest(), b"");
    assert_eq!(unix.stop(), 0);
    assert!(!path.exists() && TcpStream::connect(address).is_err());
}
