//! Many requests at once, from one thread and from many, and their results when the connection is lost.

use std::sync::Arc;
use std::thread;

use ferrite_disk::{Access, Disk, Op, RamDisk, ReadOnlyDisk, Request, Wait, Zeroing};
use ferrite_memory::{Error, Span};
use ferrite_nbd::client::{ConnectError, ConnectOptions, NbdDisk};

use super::stage::{SIZE, Stage};

fn read(token: u64, at: u64, len: usize) -> Request {
    Request { token, op: Op::Read, span: Span::new(at, len as u64), buffer: vec![0; len] }
}

/// The client reports the geometry that the disk itself reports.
#[test]
fn the_geometry_comes_through() {
    let stage = Stage::new();
    let geometry = stage.connect().geometry();
    assert_eq!((geometry.size, geometry.sector_bytes, geometry.preferred_bytes), (SIZE, 512, 4096));
    assert!(geometry.trim && !geometry.read_only && geometry.volatile_cache);
    let fixed = Stage::of(Arc::new(ReadOnlyDisk::new(RamDisk::new(SIZE))));
    let disk = fixed.connect();
    assert!(disk.geometry().read_only);
    assert!(matches!(disk.write(0, &[0; 512], Access::Cached), Err(Error::ReadOnly)));
    disk.flush().unwrap();
    let options = ConnectOptions { read_only: true, ..ConnectOptions::default() };
    let held = NbdDisk::connect(&stage.uri("disk0"), &options).unwrap();
    assert!(matches!(held.trim(Span::new(0, 512), Access::Cached), Err(Error::ReadOnly)));
}

/// C5: far more bytes in flight each way than the sockets hold, from one thread that does not look at replies.
#[test]
fn a_thread_may_submit_without_receiving() {
    let stage = Stage::new();
    let disk = stage.connect();
    let mut queue = disk.queue().unwrap().unwrap();
    for token in 0..32 {
        let write = Request {
            token,
            op: Op::Write(Access::Cached),
            span: Span::new(token << 19, 1 << 19),
            buffer: vec![token as u8 + 1; 1 << 19],
        };
        assert!(queue.submit(write).is_none());
        assert!(queue.submit(read(100 + token, token << 19, 1 << 19)).is_none());
    }
    let mut done = Vec::new();
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut done).unwrap();
    }
    assert_eq!(done.len(), 64);
    for completion in done {
        completion.result.unwrap();
        let fill = completion.token as u8 % 100 + 1;
        assert!(completion.buffer.iter().all(|byte| *byte == fill), "token {}", completion.token);
    }
}

/// C1: threads share one connection; each gets its own bytes.
#[test]
fn threads_share_a_connection() {
    let stage = Stage::new();
    let disk = stage.connect();
    thread::scope(|scope| {
        for thread in 0..8_u64 {
            let disk = &disk;
            scope.spawn(move || {
                for round in 0..200_u64 {
                    let (at, bytes) = ((thread << 20) + round % 16 * 4096, vec![(thread * 31 + round) as u8; 4096]);
                    disk.write(at, &bytes, Access::Cached).unwrap();
                    let mut back = vec![0; 4096];
                    disk.read(at, &mut back).unwrap();
                    assert!(back == bytes, "thread {thread}, round {round}");
                }
            });
        }
    });
    disk.flush().unwrap();
}

/// Some threads make blocking calls while another submits and collects: no thread gets another thread's result.
#[test]
fn pollers_and_callers_do_not_mix() {
    let stage = Stage::new();
    let disk = stage.connect();
    thread::scope(|scope| {
        let disk = &disk;
        for _ in 0..2 {
            scope.spawn(move || (0..300).for_each(|at| disk.read(at * 4096, &mut [0; 4096]).unwrap()));
        }
        let (mut queue, mut done) = (disk.queue().unwrap().unwrap(), Vec::new());
        for token in 0..300 {
            assert!(queue.submit(read(token, token * 512, 512)).is_none());
            let wait = if token % 3 == 0 { Wait::Forever } else { Wait::No };
            queue.collect(wait, &mut done).unwrap();
        }
        while done.len() < 300 {
            queue.collect(Wait::Forever, &mut done).unwrap();
        }
    });
}

/// A buffer longer than the largest request is cut into commands, and its data is joined again.
#[test]
fn long_requests_are_cut_up() {
    let size = 70 << 20;
    let stage = Stage::of(Arc::new(RamDisk::new(size)));
    let disk = stage.connect();
    let bytes: Vec<u8> = (0..size as usize).map(|at| (at / 4096 % 251) as u8).collect();
    disk.write(0, &bytes, Access::Fua).unwrap();
    let mut back = vec![0; size as usize];
    disk.read(0, &mut back).unwrap();
    assert!(back == bytes);
    disk.write_zeroes(Span::new(0, size), Zeroing::default()).unwrap();
    assert!(disk.extents(Span::new(0, size)).unwrap().iter().all(|run| run.zero));
}

/// C1, C3: when the server goes, requests in flight fail, and every later request is refused as poisoned.
#[test]
fn a_lost_connection_poisons() {
    let mut stage = Stage::new();
    let disk = stage.connect();
    disk.write(0, &[1; 512], Access::Cached).unwrap();
    assert_eq!(stage.listening.take().unwrap().stop(), 0);
    assert!(matches!(disk.read(0, &mut [0; 512]), Err(Error::Io { .. })));
    assert!(matches!(disk.read(0, &mut [0; 512]), Err(Error::Poisoned(_))));
    assert!(matches!(disk.flush(), Err(Error::Poisoned(_))));
    let mut queue = disk.queue().unwrap().unwrap();
    let refused = queue.submit(read(7, 0, 512)).expect("refused at once");
    assert_eq!((refused.token, refused.buffer.len()), (7, 512));
    assert!(matches!(refused.result, Err(Error::Poisoned(_))));
    assert_eq!(queue.collect(Wait::Forever, &mut Vec::new()).unwrap(), 0);
}

/// The error gives the reason why there is no connection, and the address.
#[test]
fn failures_to_connect_are_told_apart() {
    let stage = Stage::new();
    let connect = |uri: &str| NbdDisk::connect(uri, &ConnectOptions::default()).err().expect("it connected");
    assert!(matches!(connect("disk0"), ConnectError::Uri { .. }));
    assert!(matches!(connect("nbd+unix:///?socket=/nonexistent/socket"), ConnectError::Unreachable { .. }));
    assert!(matches!(connect("nbd://127.0.0.1:1/"), ConnectError::Unreachable { .. }));
    let refused = connect(&stage.uri("nobody"));
    assert!(matches!(refused, ConnectError::Refused { .. }));
    assert!(refused.to_string().contains("no such export"), "{refused}");
    let error = Error::from(refused).to_string();
    assert!(error.contains("nobody"), "{error}");
}
