//! C6: the client sends no command that a server did not offer.

use std::io::{Read, Write};
use std::sync::mpsc;

use ferrite_disk::{Access, Disk, Op, Request, Run, Wait, Zeroing};
use ferrite_memory::{Error, Span};
use ferrite_nbd::client::{ConnectError, ConnectOptions, NbdDisk};
use ferrite_nbd::consts::{STATE_ZERO, chunk, command, command_flag, transmission as offer};

use super::puppet::{Manners, Puppet, SIZE, Seen, request, simple, whole};

/// Connects to a server with `flags` that agrees to everything, calls `what`, and returns the requests that the server
/// received.
fn seen_by(flags: u16, what: impl FnOnce(&NbdDisk)) -> Vec<(u16, u16, u64, u32)> {
    let (seen, all) = mpsc::channel::<Seen>();
    let manners =
        Manners { structured: false, flags: flags | offer::HAS_FLAGS, size: SIZE, sizes: Some([4096, 8192, 64 << 10]) };
    let puppet = Puppet::polite(manners, move |mut stream| {
        while let Some(asked) = request(&mut stream) {
            if asked.command == command::WRITE {
                stream.read_exact(&mut vec![0; asked.len as usize]).unwrap();
            }
            seen.send(asked).unwrap();
            if asked.command != command::DISC {
                stream.write_all(&simple(asked.cookie, 0)).unwrap();
            }
        }
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    what(&disk);
    drop(disk);
    puppet.end();
    all.iter().map(|asked| (asked.command, asked.flags, asked.at, asked.len)).collect()
}

const PAGE: [u8; 4096] = [1; 4096];
const WHOLE: Span = Span::new(0, 128 << 10);

/// If the server offers everything, each request is one command with its flags.
#[test]
fn what_is_offered_is_used() {
    let all = offer::SEND_FLUSH
        | offer::SEND_FUA
        | offer::SEND_TRIM
        | offer::SEND_WRITE_ZEROES
        | offer::SEND_FAST_ZERO
        | offer::SEND_DF;
    let seen = seen_by(all, |disk| {
        let geometry = disk.geometry();
        assert_eq!((geometry.sector_bytes, geometry.preferred_bytes, geometry.trim), (4096, 8192, true));
        disk.write(0, &PAGE, Access::Fua).unwrap();
        disk.trim(WHOLE, Access::Fua).unwrap();
        disk.write_zeroes(WHOLE, Zeroing { access: Access::Fua, keep_space: true, fast: true }).unwrap();
        disk.flush().unwrap();
        assert!(matches!(disk.write(512, &PAGE, Access::Cached), Err(Error::OutOfRange { sector_bytes: 4096, .. })));
    });
    let zero = command_flag::FUA | command_flag::NO_HOLE | command_flag::FAST_ZERO;
    assert_eq!(
        seen,
        [
            (command::WRITE, command_flag::FUA, 0, 4096),
            (command::TRIM, command_flag::FUA, 0, 128 << 10),
            (command::WRITE_ZEROES, zero, 0, 128 << 10),
            (command::FLUSH, 0, 0, 0),
            (command::DISC, 0, 0, 0),
        ]
    );
}

/// If the server only offers a flush, FUA is a write and a flush after it, zeroes are written, and a trim does nothing.
#[test]
fn what_is_not_offered_is_done_otherwise() {
    let seen = seen_by(offer::SEND_FLUSH, |disk| {
        assert!(!disk.geometry().trim);
        disk.write(0, &PAGE, Access::Fua).unwrap();
        let write = Request { token: 3, op: Op::Write(Access::Fua), span: Span::new(4096, 0), buffer: PAGE.to_vec() };
        let (mut queue, mut done) = (disk.queue().unwrap().unwrap(), Vec::new());
        assert!(queue.submit(write).is_none());
        queue.collect(Wait::Forever, &mut done).unwrap();
        assert!(done.len() == 1 && done[0].token == 3 && done[0].result.is_ok());
        disk.trim(WHOLE, Access::Cached).unwrap();
        disk.write_zeroes(WHOLE, Zeroing::default()).unwrap();
        let fast = Zeroing { fast: true, ..Zeroing::default() };
        assert!(matches!(disk.write_zeroes(WHOLE, fast), Err(Error::Unsupported(_))));
    });
    let flushed = |at| [(command::WRITE, 0, at, 4096), (command::FLUSH, 0, 0, 0)];
    let zeros = [(command::WRITE, 0, 0, 64 << 10), (command::WRITE, 0, 64 << 10, 64 << 10), (command::DISC, 0, 0, 0)];
    assert_eq!(seen, [&flushed(0)[..], &flushed(4096), &zeros].concat());
}

/// If the server can make nothing durable, the client reports an error.
#[test]
fn a_server_that_cannot_flush_makes_nothing_durable() {
    let seen = seen_by(0, |disk| {
        assert!(matches!(disk.flush(), Err(Error::Unsupported(_))));
        assert!(matches!(disk.write(0, &PAGE, Access::Fua), Err(Error::Unsupported(_))));
    });
    assert_eq!(seen, [(command::DISC, 0, 0, 0)]);
}

/// Connecting refuses sizes that no disk of this project can have.
#[test]
fn impossible_sizes_are_refused() {
    for sizes in [[8192, 8192, 8192], [3, 4096, 4096], [512, 512, 100], [0, 0, 0]] {
        let manners = Manners { structured: true, flags: offer::HAS_FLAGS, size: SIZE, sizes: Some(sizes) };
        let puppet = Puppet::polite(manners, drop);
        let error = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).err().expect("it connected");
        assert!(matches!(error, ConnectError::Refused { .. }), "{sizes:?}: {error}");
        puppet.end();
    }
}

/// A file can have such a size: the bytes behind the last whole block would be left out silently.
#[test]
fn an_export_that_is_no_whole_number_of_blocks_is_refused() {
    for (size, least, block_bytes) in [(10_000, 1, 512), (100, 512, 512), (512 * 9, 4096, 4096)] {
        let sizes = Some([least, 4096, 1 << 20]);
        let puppet = Puppet::polite(Manners { structured: true, flags: offer::HAS_FLAGS, size, sizes }, drop);
        let error = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).err().expect("it connected");
        let (blocks, rest) = (size / block_bytes, size % block_bytes);
        let said = format!(
            "has {size} bytes, and a disk whole blocks: behind {blocks} of {block_bytes} bytes there are {rest}"
        );
        assert!(matches!(error, ConnectError::PartBlock { .. }) && error.to_string().contains(&said), "{error}");
        puppet.end();
    }
}

/// Extents beyond the requested range are cut off at its end, and the caller asks again for the rest.
#[test]
fn extents_are_held_to_the_question() {
    let manners = Manners { structured: true, flags: offer::HAS_FLAGS, size: SIZE, sizes: None };
    let puppet = Puppet::polite(manners, |mut stream| {
        let asked = request(&mut stream).unwrap();
        assert_eq!((asked.command, asked.at, asked.len), (command::BLOCK_STATUS, 512, 2048));
        let pairs = [5, 1024, 0, 1 << 30, STATE_ZERO].map(u32::to_be_bytes);
        stream.write_all(&whole(asked.cookie, chunk::DONE, chunk::BLOCK_STATUS, pairs.as_flattened())).unwrap();
        while request(&mut stream).is_some() {}
    });
    let disk = NbdDisk::connect(&puppet.uri(), &ConnectOptions::default()).unwrap();
    let runs = disk.extents(Span::new(512, 2048)).unwrap();
    assert_eq!(runs, [Run { len: 1024, hole: false, zero: false }, Run { len: 1024, hole: false, zero: true }]);
    drop(disk);
    puppet.end();
}
