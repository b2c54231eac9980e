//! The agreement of client and server before the first request.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use ferrite_disk::{RamDisk, ReadOnlyDisk};
use ferrite_nbd::consts::{info_kind, option, rep, transmission};
use ferrite_nbd::{End, Options, Server};

use super::client::{Ask, Client, OptionReply, Spy, context_data, go_data, option_bytes, request_bytes};
use super::disks::{Named, Probe, SIZE, server, server_with};

fn two() -> Server {
    let fixed = ReadOnlyDisk::new(RamDisk::new(8192));
    Server::new(Arc::new(Named(vec![("disk0", Probe::new()), ("fixed", Arc::new(fixed))])), Options::default())
}

fn kinds(replies: &[OptionReply]) -> Vec<u32> {
    replies.iter().map(|reply| reply.kind).collect()
}

/// LIST names the exports in order with their descriptions; data with it is refused.
#[test]
fn list_names_the_exports() {
    let mut client = Client::connect(&two());
    let replies = client.option(option::LIST, &[]);
    assert_eq!(kinds(&replies), [rep::SERVER, rep::SERVER, rep::ACK]);
    assert_eq!(replies[0].data, b"\0\0\0\x05disk0the first disk");
    assert_eq!(replies[1].data, b"\0\0\0\x05fixed");
    assert_eq!(kinds(&client.option(option::LIST, b"x")), [rep::ERR_INVALID]);
}

/// INFO reports size, flags, and the other requested information; the empty name means the first export; the handshake
/// continues.
#[test]
fn info_describes_and_does_not_enter() {
    let mut client = Client::connect(&two());
    let all = [info_kind::NAME, info_kind::DESCRIPTION, info_kind::BLOCK_SIZE, 999];
    let replies = client.option(option::INFO, &go_data("", &all));
    assert_eq!(kinds(&replies), [rep::INFO, rep::INFO, rep::INFO, rep::INFO, rep::ACK]);
    assert_eq!(replies[0].data[..10], [&[0, 0], &SIZE.to_be_bytes()[..]].concat());
    assert_eq!(replies[1].data, b"\0\x01disk0");
    assert_eq!(replies[2].data, b"\0\x02the first disk");
    assert_eq!(replies[3].data, [0, 3, 0, 0, 2, 0, 0, 0, 16, 0, 2, 0, 0, 0]);
    let fixed = client.option(option::INFO, &go_data("fixed", &[]));
    let flags = u16::from_be_bytes([fixed[0].data[10], fixed[0].data[11]]);
    assert_eq!(flags & transmission::READ_ONLY, transmission::READ_ONLY);
    assert_eq!(flags & (transmission::SEND_TRIM | transmission::SEND_WRITE_ZEROES | transmission::SEND_DF), 0);
}

/// Each refusal has its own error, and the client may continue and try another option.
#[test]
fn refusals_are_told_apart() {
    let mut client = Client::connect(&two());
    let mut refused = |number, data: &[u8]| kinds(&client.option(number, data));
    assert_eq!(refused(option::GO, &go_data("nobody", &[])), [rep::ERR_UNKNOWN]);
    assert_eq!(refused(option::GO, &go_data("locked", &[])), [rep::ERR_POLICY]);
    assert_eq!(refused(option::GO, b"\0\0\0\x09short"), [rep::ERR_INVALID]);
    assert_eq!(refused(5, &[]), [rep::ERR_UNSUP], "STARTTLS");
    assert_eq!(refused(77, b"whatever"), [rep::ERR_UNSUP]);
    assert_eq!(refused(77, &vec![0; 100 << 10]), [rep::ERR_TOO_BIG]);
    assert_eq!(refused(option::SET_META_CONTEXT, &context_data("", &["base:allocation"])), [rep::ERR_INVALID]);
    assert_eq!(refused(option::STRUCTURED_REPLY, b"x"), [rep::ERR_INVALID]);
    assert_eq!(refused(option::GO, &go_data("fixed", &[])).last(), Some(&rep::ACK));
}

/// An empty query list and `base:` find the only context when listing; its name always finds it. Choosing by anything
/// less selects no context.
#[test]
fn contexts_are_listed_and_chosen() {
    let mut client = Client::connect(&two());
    client.option(option::STRUCTURED_REPLY, &[]);
    let (one, none) = (vec![rep::META_CONTEXT, rep::ACK], vec![rep::ACK]);
    for (number, queries, expected) in [
        (option::LIST_META_CONTEXT, &[][..], &one),
        (option::LIST_META_CONTEXT, &["base:"], &one),
        (option::LIST_META_CONTEXT, &["qemu:", "base:allocation"], &one),
        (option::LIST_META_CONTEXT, &["qemu:"], &none),
        (option::SET_META_CONTEXT, &[], &none),
        (option::SET_META_CONTEXT, &["base:"], &none),
        (option::SET_META_CONTEXT, &["base:allocation"], &one),
    ] {
        let replies = client.option(number, &context_data("disk0", queries));
        assert_eq!(kinds(&replies), *expected, "{number} {queries:?}");
    }
    let unknown = client.option(option::SET_META_CONTEXT, &context_data("nobody", &["base:allocation"]));
    assert_eq!(kinds(&unknown), [rep::ERR_UNKNOWN]);
}

/// EXPORT_NAME enters at once, with the 124 zeros unless they were declined. If the export is unknown, the server
/// closes the connection.
#[test]
fn export_name_enters_or_closes() {
    let mut client = Client::connect(&two());
    client.say(&option_bytes(option::EXPORT_NAME, b"fixed"));
    let mut head = [0; 10];
    client.stream.read_exact(&mut head).unwrap();
    assert_eq!(head[..8], 8192_u64.to_be_bytes());
    client.say(&request_bytes(Ask { command: 2, ..Default::default() }));
    assert_eq!(client.rest(), b"", "no zeros were to follow");
    assert!(client.end().is_ok());

    let mut client = Client::connect(&two());
    client.say(&option_bytes(option::EXPORT_NAME, b"nobody"));
    assert_eq!(client.rest(), b"");
}

/// A client that declined nothing gets the zeros.
#[test]
fn export_name_sends_zeros_to_old_clients() {
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let server = two();
    let served = thread::spawn(move || server.serve_stream(theirs));
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[&[0, 0, 0, 1][..], &option_bytes(option::EXPORT_NAME, b"")].concat()).unwrap();
    let mut head = [1; 134];
    stream.read_exact(&mut head).unwrap();
    assert_eq!((&head[..8], &head[10..]), (&SIZE.to_be_bytes()[..], &[0; 124][..]));
    drop(stream);
    assert!(matches!(served.join().unwrap(), Err(End::Closed)));
}

/// ABORT is acknowledged, then the connection is closed properly.
#[test]
fn abort_is_acknowledged() {
    let mut client = Client::connect(&two());
    assert_eq!(kinds(&client.option(option::ABORT, &[])), [rep::ACK]);
    assert!(client.end().is_ok());
}

/// N9: a client that sends nothing, or half an option, is dropped.
#[test]
fn silent_clients_are_dropped() {
    let options = Options { handshake_timeout: Duration::from_millis(50), ..Options::default() };
    let server = server_with(Probe::new(), options);
    for said in [&b""[..], b"\0\0\0\x03", b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x09half"] {
        let (mut stream, theirs) = UnixStream::pair().unwrap();
        stream.write_all(said).unwrap();
        assert!(matches!(server.serve_stream(theirs), Err(End::Silent)), "{said:?}");
    }
}

/// N9: a client that continues to ask, and never chooses, is dropped too: the limit covers the whole handshake.
#[test]
fn a_client_that_asks_for_ever_is_dropped() {
    let options = Options { handshake_timeout: Duration::from_millis(100), ..Options::default() };
    let server = server_with(Probe::new(), options);
    let (mut stream, theirs) = UnixStream::pair().unwrap();
    let served = thread::spawn(move || server.serve_stream(theirs));
    stream.write_all(b"\0\0\0\x03").unwrap();
    let start = Instant::now();
    let mut answers = [0; 4096];
    while stream.write_all(&option_bytes(option::LIST, &[])).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "it is answered for ever");
        let _ = stream.read(&mut answers);
    }
    assert!(matches!(served.join().unwrap(), Err(End::Silent | End::Lost(_))));
}

/// N9: the limit ends with the handshake; from then on a connection may stay idle for any time.
#[test]
fn a_connection_may_rest() {
    let (stream, theirs) = UnixStream::pair().unwrap();
    let (spy, log) = Spy::new(theirs);
    let server = server(Probe::new());
    let served = thread::spawn(move || server.serve_stream(spy));
    let mut client = Client::on(stream);
    client.agree();
    let flush = Ask { command: 3, ..Default::default() };
    assert_eq!(client.call(flush, &[]).errno, 0);
    drop(client);
    assert!(served.join().unwrap().is_err());
    let timeouts = log.lock().unwrap().timeouts.clone();
    assert!(timeouts[0].is_some(), "{timeouts:?}");
    assert_eq!(timeouts.last(), Some(&None), "{timeouts:?}");
}

/// N3: connections beyond the limit are closed at once, and a place that becomes free is used again.
#[test]
fn connections_are_limited() {
    let server = server_with(Probe::new(), Options { connections_max: 1, ..Options::default() });
    let mut first = Client::connect(&server);
    first.agree();
    assert_eq!(first.call(Ask { command: 3, ..Default::default() }, &[]).errno, 0);
    let (_, theirs) = UnixStream::pair().unwrap();
    assert!(matches!(server.serve_stream(theirs), Err(End::Closed)));
    assert_eq!(server.connections(), 1);
    assert!(first.end().is_err());
    let second = Client::simple(&server);
    assert_eq!(server.connections(), 1);
    drop(second);
}

/// A context chosen for one export does not count for another.
#[test]
fn contexts_belong_to_their_export() {
    let mut client = Client::connect(&two());
    client.option(option::STRUCTURED_REPLY, &[]);
    client.option(option::SET_META_CONTEXT, &context_data("disk0", &["base:allocation"]));
    client.option(option::GO, &go_data("fixed", &[]));
    let ask = Ask { command: 7, len: 4096, ..Default::default() };
    assert_eq!(client.call(ask, &[]).errno, ferrite_nbd::errno::EINVAL);
}
