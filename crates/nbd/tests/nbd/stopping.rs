//! Listening on a socket, and stopping the server.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::Duration;

use ferrite_nbd::consts::command;
use ferrite_nbd::{ListenError, Options};
use tempfile::tempdir;

use super::client::{Ask, Client};
use super::disks::{GATE, Probe, server, server_with};

fn flush() -> Ask {
    Ask { command: command::FLUSH, ..Ask::default() }
}

/// Only the owner can access the socket. After the stop it is gone, and idle clients are disconnected.
#[test]
fn listens_and_leaves_nothing() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = server(Probe::new());
    let listening = server.listen_unix(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let mut idle = Client::on(UnixStream::connect(&path).unwrap());
    idle.agree();
    assert_eq!(idle.call(flush(), &[]).errno, 0);
    let _haggling = Client::on(UnixStream::connect(&path).unwrap());
    assert_eq!(listening.stop(), 0);
    assert_eq!(idle.rest(), b"");
    assert!(!path.exists());
    assert_eq!(server.connections(), 0);
}

/// N8: when the server stops, a request in flight is finished and answered, and so is a request received behind it.
#[test]
fn requests_in_flight_are_answered() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let disk = Probe::new();
    let listening = server(disk.clone()).listen_unix(&path).unwrap();
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.agree();
    client.ask(Ask { command: command::TRIM, at: GATE, len: 512, ..Ask::default() }, &[]);
    client.ask(flush(), &[]);
    disk.wait_at_gate();
    let stopping = std::thread::spawn(move || listening.stop());
    // The stop has begun only when the server refuses new clients.
    while UnixStream::connect(&path).is_ok() {
        std::thread::yield_now();
    }
    disk.open_gate();
    assert_eq!((client.reply(0).cookie, client.reply(0).cookie), (GATE, 0));
    assert_eq!(client.rest(), b"");
    assert_eq!(stopping.join().unwrap(), 0);
    assert_eq!(disk.seen(), [format!("trim {GATE}+512 Cached"), "flush".into()]);
}

/// N8: a client that never reads its replies does not keep the server from stopping.
#[test]
fn a_stalled_client_is_cut() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let options = Options { stop_patience: Duration::from_millis(50), ..Options::default() };
    let listening = server_with(Probe::new(), options).listen_unix(&path).unwrap();
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.agree();
    client.ask(Ask { command: command::READ, at: 4 << 20, len: 32 << 20, flags: 4 }, &[]);
    assert_eq!(listening.stop(), 0);
}

/// N8: a disk that does not return cannot be ended, and the stop reports that instead of waiting.
#[test]
fn a_stuck_disk_is_told() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let disk = Probe::new();
    let options = Options { stop_patience: Duration::from_millis(50), ..Options::default() };
    let listening = server_with(disk.clone(), options).listen_unix(&path).unwrap();
    let mut client = Client::on(UnixStream::connect(&path).unwrap());
    client.agree();
    client.ask(Ask { command: command::TRIM, at: GATE, len: 512, ..Ask::default() }, &[]);
    disk.wait_at_gate();
    assert_eq!(listening.stop(), 1);
    disk.open_gate();
}

/// A killed server's socket is taken over; a socket that answers, and a file that is not a socket, are not touched.
#[test]
fn only_a_dead_socket_is_removed() {
    let dir = tempdir().unwrap();
    let path = dir.path().join("socket");
    let server = server(Probe::new());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "a killed server leaves its socket");
    // A process that another test is just starting may hold the socket a moment longer.
    while UnixStream::connect(&path).is_ok() {
        std::thread::yield_now();
    }
    let first = server.listen_unix(&path).unwrap();
    assert!(matches!(server.listen_unix(&path), Err(ListenError::Busy(_))));
    Client::on(UnixStream::connect(&path).unwrap());
    first.stop();

    fs::write(&path, b"precious").unwrap();
    assert!(matches!(server.listen_unix(&path), Err(ListenError::NotSocket(_))));
    assert_eq!(fs::read(&path).unwrap(), b"precious");
    let long = dir.path().join("x".repeat(120));
    assert!(matches!(server.listen_unix(&long), Err(ListenError::TooLong(_))));
    let nowhere = dir.path().join("nowhere/socket");
    assert!(matches!(server.listen_unix(&nowhere), Err(ListenError::Io { .. })));
}
