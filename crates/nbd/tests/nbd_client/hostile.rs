//! Servers that break the rules (C1, C2): the client ends the connection and never panics, hangs, or accepts their
//! data.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use ferrite_disk::{Access, Disk, Op, Request, Wait};
use ferrite_memory::{Error, Span};
use ferrite_nbd::client::{ConnectError, ConnectOptions, NbdDisk};
use ferrite_nbd::consts::{chunk, option, rep, transmission};
use proptest::prelude::*;

use super::puppet::{self, Manners, Puppet, SIZE, greeting, option_reply, request, simple, whole};

const MANNERS: Manners = Manners {
    structured: true,
    flags: transmission::HAS_FLAGS | transmission::SEND_FLUSH | transmission::SEND_TRIM,
    size: SIZE,
    sizes: None,
};

fn refusal(puppet: Puppet, timeout: Duration) -> ConnectError {
    let options = ConnectOptions { timeout, ..ConnectOptions::default() };
    let error = NbdDisk::connect(&puppet.uri(), &options).err().expect("it connected");
    puppet.end();
    error
}

/// Creates a server that sends `said` and then nothing until the client leaves.
fn saying(said: Vec<u8>) -> Puppet {
    Puppet::new(move |mut stream| {
        let _ = stream.write_all(&said);
        let _ = stream.read_to_end(&mut Vec::new());
    })
}

/// The error describes the bytes that a server sends instead of the handshake.
#[test]
fn nonsense_in_the_handshake_is_refused() {
    let structured = |said: &[u8]| [&greeting(), said].concat();
    let huge = [option_reply(option::STRUCTURED_REPLY, rep::ACK, &[])[..16].to_vec(), vec![0xff; 4]].concat();
    for said in [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        b"NBDMAGIC\x00\x00\x42\x02\x81\x86\x12\x53".to_vec(),
        [&greeting()[..16], &[0, 0]].concat(),
        structured(&option_reply(option::GO, rep::ACK, &[])),
        structured(&huge),
        structured(&[0xff; 100]),
    ] {
        let error = refusal(saying(said.clone()), Duration::from_secs(30));
        assert!(matches!(error, ConnectError::NotNbd { .. }), "{said:?}: {error}");
    }
    let secret = structured(&option_reply(option::STRUCTURED_REPLY, (1 << 31) + 5, &[]));
    let secret = [secret, option_reply(option::GO, (1 << 31) + 5, b"come back with TLS")].concat();
    let error = refusal(saying(secret), Duration::from_secs(30)).to_string();
    assert!(error.contains("insists on TLS") && error.contains("come back"), "{error}");
}

/// The client gives up a server that is silent, sends slowly, or never finishes, after the limit for the whole
/// handshake.
#[test]
fn slow_handshakes_end() {
    let endless = |mut stream: UnixStream| {
        let _ = stream.write_all(&greeting());
        let _ = stream.write_all(&option_reply(option::STRUCTURED_REPLY, rep::ERR_UNSUP, &[]));
        while stream.write_all(&option_reply(option::GO, rep::INFO, &[0, 9])).is_ok() {}
    };
    let dripping = |mut stream: UnixStream| {
        for byte in greeting().iter().cycle() {
            thread::sleep(Duration::from_millis(40));
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    };
    for puppet in [saying(Vec::new()), Puppet::new(endless), Puppet::new(dripping)] {
        let error = refusal(puppet, Duration::from_millis(300));
        assert!(matches!(error, ConnectError::Unreachable { .. }), "{error}");
    }
    let ended = refusal(Puppet::new(drop), Duration::from_secs(30));
    assert!(matches!(ended, ConnectError::Unreachable { .. }), "{ended}");
}

/// Sends the request `ask` to a server that answers with the bytes that `answer` makes of the cookie.
fn answered(answer: impl FnOnce(u64) -> Vec<u8> + Send + 'static, ask: impl FnOnce(&NbdDisk)) {
    let puppet = Puppet::polite(MANNERS, move |mut stream| {
        let asked = request(&mut stream).unwrap();
        // The client may leave before it has received all bytes.
        let _ = stream.write_all(&answer(asked.cookie));
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    ask(&disk);
    assert!(matches!(disk.read(0, &mut [0; 512]), Err(Error::Poisoned(_))), "C3");
    drop(disk);
    puppet.end();
}

fn data(cookie: u64, flags: u16, at: u64, len: usize) -> Vec<u8> {
    whole(cookie, flags, chunk::OFFSET_DATA, &[&at.to_be_bytes()[..], &vec![9; len]].concat())
}

/// Invalid answers to a read of 4096 bytes at 4096.
type Answer = fn(u64) -> Vec<u8>;

const ANSWERS: [(&str, Answer); 23] = [
    ("nothing", |_| Vec::new()),
    ("wrong magic", |_| vec![0x55; 64]),
    ("another's cookie", |cookie| simple(cookie + 1, 0)),
    ("another's cookie in a chunk", |cookie| data(cookie ^ 1, chunk::DONE, 4096, 4096)),
    ("a simple success", |cookie| [simple(cookie, 0), vec![9; 4096]].concat()),
    ("a head cut off", |cookie| simple(cookie, 5)[..9].to_vec()),
    ("half the data", |cookie| data(cookie, chunk::DONE, 4096, 2048)),
    ("data cut off", |cookie| data(cookie, chunk::DONE, 4096, 4096)[..1000].to_vec()),
    ("more data", |cookie| data(cookie, chunk::DONE, 4096, 4608)),
    ("data before it", |cookie| data(cookie, chunk::DONE, 0, 4096)),
    ("data at the end of the world", |cookie| data(cookie, chunk::DONE, u64::MAX - 5, 4096)),
    ("data twice", |cookie| [data(cookie, 0, 4096, 4096), data(cookie, chunk::DONE, 4096, 4096)].concat()),
    ("half of it twice", |cookie| [data(cookie, 0, 4096, 2048), data(cookie, chunk::DONE, 4096, 2048)].concat()),
    ("the other half twice", |cookie| [data(cookie, 0, 6144, 2048), data(cookie, chunk::DONE, 6144, 2048)].concat()),
    ("halves that overlap", |cookie| [data(cookie, 0, 4096, 2048), data(cookie, chunk::DONE, 5120, 2048)].concat()),
    ("no data", |cookie| whole(cookie, chunk::DONE, chunk::NONE, &[])),
    ("an offset without data", |cookie| data(cookie, chunk::DONE, 4096, 0)),
    ("four gigabytes", |cookie| puppet::chunk(cookie, chunk::DONE, chunk::OFFSET_DATA, u32::MAX, &[0; 64])),
    ("a long text", |cookie| puppet::chunk(cookie, chunk::DONE, chunk::ERROR, u32::MAX, &[1; 64])),
    ("a text cut off", |cookie| whole(cookie, chunk::DONE, chunk::ERROR, &[0, 0, 0, 5, 1, 0])),
    ("an error that is none", |cookie| whole(cookie, chunk::DONE, chunk::ERROR, &[0; 6])),
    ("a hole beside it", |cookie| whole(cookie, chunk::DONE, chunk::OFFSET_HOLE, &[0; 12])),
    ("extents", |cookie| whole(cookie, chunk::DONE, chunk::BLOCK_STATUS, &[0, 0, 0, 5, 0, 0, 16, 0, 0, 0, 0, 0])),
];

/// C1, C2: the read fails, its buffer has no data that was not read, and the connection is ended.
#[test]
fn answers_that_are_none_end_the_connection() {
    for (what, answer) in ANSWERS {
        answered(answer, |disk| {
            let read = disk.read(4096, &mut [0; 4096]);
            assert!(matches!(read, Err(Error::Io { .. })), "{what}: {read:?}");
        });
    }
    answered(|cookie| whole(cookie, chunk::DONE, 77, &[]), |disk| assert!(disk.flush().is_err()));
    answered(
        |cookie| whole(cookie, chunk::DONE, chunk::BLOCK_STATUS, &[0, 0, 0, 5]),
        |disk| {
            assert!(disk.extents(Span::new(0, 4096)).is_err());
        },
    );
    answered(|cookie| simple(cookie, 0), |disk| assert!(disk.extents(Span::new(0, 4096)).is_err()));
}

/// C2: the puppet has agreed on context 5.
#[test]
fn extents_of_another_context_or_told_twice_end_the_connection() {
    let extents = |cookie, flags, context: u8| {
        whole(cookie, flags, chunk::BLOCK_STATUS, &[0, 0, 0, context, 0, 0, 8, 0, 0, 0, 0, 3])
    };
    answered(move |cookie| extents(cookie, chunk::DONE, 6), |disk| assert!(disk.extents(Span::new(0, 4096)).is_err()));
    answered(
        move |cookie| [extents(cookie, 0, 5), extents(cookie, chunk::DONE, 5)].concat(),
        |disk| assert!(disk.extents(Span::new(0, 4096)).is_err()),
    );
}

/// An error with its offset after some of the data belongs only to that request: the next one is served.
#[test]
fn a_proper_error_ends_nothing() {
    let puppet = Puppet::polite(MANNERS, |mut stream| {
        let asked = request(&mut stream).unwrap();
        let mut error = [&5_u32.to_be_bytes()[..], &[0, 4], b"dust"].concat();
        error.extend(6144_u64.to_be_bytes());
        stream.write_all(&data(asked.cookie, 0, 4096, 512)).unwrap();
        stream.write_all(&whole(asked.cookie, chunk::DONE, chunk::ERROR_OFFSET, &error)).unwrap();
        let asked = request(&mut stream).unwrap();
        let zeros = [&0_u64.to_be_bytes()[..], &512_u32.to_be_bytes()].concat();
        stream.write_all(&whole(asked.cookie, 0, chunk::OFFSET_HOLE, &zeros)).unwrap();
        stream.write_all(&whole(asked.cookie, chunk::DONE, chunk::NONE, &[])).unwrap();
        while request(&mut stream).is_some() {}
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    let error = disk.read(4096, &mut [0; 4096]).unwrap_err().to_string();
    assert!(error.contains("reading 4096 bytes at 6144") && error.contains("dust"), "{error}");
    let mut bytes = [7; 512];
    disk.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 512]);
    drop(disk);
    puppet.end();
}

/// C5: a server that never reads and never answers blocks a sender, until it leaves.
#[test]
fn a_server_that_reads_nothing_ends_with_its_connection() {
    let puppet = Puppet::polite(MANNERS, |stream| {
        thread::sleep(Duration::from_millis(200));
        drop(stream);
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    let long = vec![1; 1 << 20];
    assert!(matches!(disk.write(0, &long, Access::Cached), Err(Error::Io { .. })));
    puppet.end();
}

/// Bytes that pass the first checks: mostly well-formed replies to the cookies that are in flight, and garbage between
/// them.
fn reply() -> impl Strategy<Value = Vec<u8>> {
    let cookie = 1..12_u64;
    let kind = prop::sample::select(vec![0, 1, 2, 5, 0x8001, 0x8002, 0x8003, 9]);
    let at = prop::sample::select(vec![0_u64, 512, 1024, 4096, u64::MAX]);
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    let chunks = (cookie.clone(), 0..2_u16, kind, at, payload.clone()).prop_map(|(cookie, flags, kind, at, rest)| {
        whole(cookie, flags, kind, &[&at.to_be_bytes()[..], &rest].concat())
    });
    let filled = (cookie.clone(), 0..2_u16, prop::sample::select(vec![512_usize, 1024]))
        .prop_map(|(cookie, flags, len)| data(cookie, flags, (cookie & !1) * 512, len));
    let simples = (cookie, prop::sample::select(vec![0_u32, 5, 28])).prop_map(|(cookie, errno)| simple(cookie, errno));
    prop_oneof![4 => filled, 4 => chunks, 3 => simples, 1 => payload]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// C1: whatever the server answers, every request ends and no thread panics. The failing answers are printed.
    #[test]
    fn anything_may_be_answered(structured in any::<bool>(), replies in prop::collection::vec(reply(), 0..12)) {
        let puppet = Puppet::polite(Manners { structured, ..MANNERS }, move |mut stream| {
            let _ = stream.write_all(&replies.concat());
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        });
        let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
        let ops = [Op::Read, Op::Flush, Op::Read, Op::Trim(Access::Fua), Op::Write(Access::Cached)];
        let mut queue = disk.queue().unwrap().unwrap();
        for (token, op) in (0..).zip(ops) {
            let span = if op == Op::Flush { Span::new(0, 0) } else { Span::new(token * 512, 1024) };
            let buffer = vec![0; if matches!(op, Op::Read | Op::Write(_)) { 1024 } else { 0 }];
            drop(queue.submit(Request { token, op, span, buffer }));
        }
        while queue.in_flight() > 0 {
            let count = queue.collect(Wait::Forever, &mut Vec::new()).unwrap();
            prop_assert!(count > 0, "nothing was collected while {} are in flight", queue.in_flight());
        }
        drop(queue);
        drop(disk.extents(Span::new(0, 4096)));
        drop(disk);
        puppet.end();
    }
}
