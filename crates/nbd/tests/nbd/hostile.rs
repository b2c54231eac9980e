//! Clients that break the rules, and a correct one beside them that must not notice.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use ferrite_disk::RamDisk;
use ferrite_nbd::consts::{command, option};
use ferrite_nbd::{End, REQUEST_MAX_BYTES, Server};
use proptest::prelude::*;

use super::client::{Ask, Client, context_data, go_data, option_bytes, request_bytes};
use super::disks::{MINE, Probe, server};

/// Asserts that the server answers the correct client's request (N4).
fn assert_serves(good: &mut Client) {
    let bytes = vec![3; 4096];
    assert_eq!(good.call(Ask { command: command::WRITE, at: 8192, len: 4096, ..Ask::default() }, &bytes).errno, 0);
    assert_eq!(good.call(Ask { command: command::READ, at: 8192, len: 4096, ..Ask::default() }, &[]).data, bytes);
}

/// N5: after a message that cannot be parsed, or is too long to receive, the connection is dropped.
#[test]
fn lost_framing_drops_the_connection() {
    let server = server(Probe::new());
    let mut good = Client::structured(&server);
    let huge = Ask { command: command::WRITE, at: 0, len: u32::MAX, ..Ask::default() };
    let mut wrong_magic = request_bytes(Ask::default());
    wrong_magic[0] ^= 0xff;
    for (said, ends) in [
        (wrong_magic, "not NBD: wrong magic number"),
        (request_bytes(huge), "a message of 4294967295 bytes is too long"),
        (request_bytes(Ask::default())[..27].to_vec(), "closed"),
    ] {
        let mut client = Client::structured(&server);
        client.say(&said);
        client.stream.shutdown(std::net::Shutdown::Write).unwrap();
        assert_eq!(client.rest(), b"");
        assert_eq!(client.end().unwrap_err().to_string(), ends);
        assert_serves(&mut good);
    }
}

/// N5: the rule of the previous test also holds before transmission.
#[test]
fn lost_framing_in_the_handshake_drops_the_connection() {
    let server = server(Probe::new());
    let mut good = Client::structured(&server);
    let huge = [&b"IHAVEOPT"[..], &[0, 0, 0, 7, 0xff, 0xff, 0xff, 0xff]].concat();
    for said in [&b"GET / HTTP/1.1\r\n\r\n"[..], &huge] {
        let mut client = Client::connect(&server);
        client.say(said);
        client.rest();
        assert!(matches!(client.end(), Err(End::Malformed(_) | End::TooLong(_))));
    }
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    stream.write_all(&[0xff; 4]).unwrap();
    assert!(matches!(server.serve_stream(theirs), Err(End::Malformed(_))));
    assert_serves(&mut good);
}

/// N4: a client that sends many requests and never reads blocks no other client; when it leaves, its thread ends.
#[test]
fn a_stalled_client_holds_up_nobody() {
    let server = server(Probe::new());
    let mut good = Client::structured(&server);
    let mut stalled = Client::simple(&server);
    stalled.stream.set_nonblocking(true).unwrap();
    let read = request_bytes(Ask { command: command::READ, at: 4 << 20, len: 4 << 20, ..Ask::default() });
    while stalled.stream.write_all(&read).is_ok() {}
    (0..100).for_each(|_| assert_serves(&mut good));
    assert!(matches!(stalled.end(), Err(End::Lost(_) | End::Closed)));
}

/// N3: an oversized write is refused without being held, and the memory of the largest request is freed.
#[test]
fn oversized_writes_are_drained() {
    let server = server(Probe::new());
    let mut client = Client::structured(&server);
    let len = 2 * REQUEST_MAX_BYTES;
    client.ask(Ask { command: command::WRITE, at: 0, len: len as u32, ..Ask::default() }, &vec![1; len]);
    let reply = client.reply(0);
    assert_eq!(reply.errno, ferrite_nbd::errno::EINVAL);
    assert!(reply.text.contains("at most 33554432"), "{}", reply.text);
    assert_serves(&mut client);
}

/// N7: a panic of the disk ends only that connection, and its place is freed.
#[test]
fn a_panicking_disk_ends_one_connection() {
    let server = server(Probe::new());
    let mut good = Client::structured(&server);
    let mut client = Client::structured(&server);
    client.ask(Ask { command: command::TRIM, at: MINE, len: 512, ..Ask::default() }, &[]);
    assert_eq!(client.rest(), b"");
    assert!(client.served.take().unwrap().join().is_err());
    assert_eq!(server.connections(), 1);
    assert_serves(&mut good);
}

/// Bytes that pass the first checks: mostly well-formed messages, in any order, with any fields, and garbage between
/// them.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let names = prop::sample::select(vec!["", "disk0", "nobody", "base:", "base:allocation"]);
    let small = prop_oneof![Just(0_u64), Just(512), Just(4096), Just(8 << 20), any::<u64>()];
    let lens = prop_oneof![Just(0_u32), Just(512), Just(100), Just(70_000), Just(1 << 20), any::<u32>()];
    let request = (0..9_u16, 0..33_u16, small, lens)
        .prop_map(|(command, flags, at, len)| request_bytes(Ask { command, flags, at, len }));
    let rubbish = prop::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        4 => request,
        1 => rubbish.clone(),
        1 => (0..13_u32, rubbish).prop_map(|(number, data)| option_bytes(number, &data)),
        2 => names.clone().prop_map(|name| option_bytes(option::GO, &go_data(name, &[1, 3]))),
        1 => Just(option_bytes(option::STRUCTURED_REPLY, &[])),
        1 => names.prop_map(|name| option_bytes(option::SET_META_CONTEXT, &context_data("", &[name]))),
    ]
}

fn harass(server: &Server, said: &[u8]) {
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let served = std::thread::spawn({
        let server = server.clone();
        move || server.serve_stream(theirs)
    });
    let mut reader = stream.try_clone().unwrap();
    let drained = std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    // The server may have dropped the connection before all bytes are sent.
    let _ = stream.write_all(said);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    assert!(served.join().is_ok(), "the server panicked");
    let _ = drained.join().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// N4, N5: no input makes the server panic or disturbs a second client. The failing input is printed.
    #[test]
    fn anything_may_be_said(messages in prop::collection::vec(message(), 0..12)) {
        let server = server(Arc::new(RamDisk::new(16 << 20)));
        let mut good = Client::structured(&server);
        harass(&server, &[&[0, 0, 0, 3][..], &messages.concat()].concat());
        assert_serves(&mut good);
    }
}
