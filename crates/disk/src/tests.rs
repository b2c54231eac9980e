//! Tests of the disks that wrap another.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::*;
use ferrite_memory::{Error, Result, Span};

const SECTOR: [u8; 512] = [7; 512];

fn disk() -> RamDisk {
    RamDisk::new(64 << 10)
}

/// One request of each kind.
fn ask_everything(disk: &dyn Disk) -> Vec<Result<()>> {
    let span = Span::new(512, 1024);
    vec![
        disk.write(512, &SECTOR, Access::Fua),
        disk.read(512, &mut [0; 512]),
        disk.write_zeroes(span, Zeroing::default()),
        disk.trim(span, Access::Cached),
        disk.flush(),
        disk.extents(span).map(drop),
    ]
}

/// Each request in turn fails, alone, with the error that was chosen, and changes nothing.
#[test]
fn errors_come_at_the_chosen_request() {
    for chosen in 0..6 {
        let failing = ErrorDisk::new(disk(), Trigger::Request(chosen), || Error::Damaged(99));
        let results = ask_everything(&failing);
        for (number, result) in results.iter().enumerate() {
            let failed = matches!(result, Err(Error::Damaged(99)));
            assert_eq!(failed, number as u64 == chosen, "request {number} with {chosen} chosen: {result:?}");
        }
        assert_eq!(failing.requests(), 6);
    }
}

#[test]
fn errors_come_where_the_chosen_bytes_are_touched() {
    let failing = ErrorDisk::new(disk(), Trigger::Touching(Span::new(1024, 1)), || Error::Damaged(1024));
    failing.write(512, &SECTOR, Access::Cached).unwrap();
    assert!(failing.write(1024, &SECTOR, Access::Cached).is_err());
    assert!(failing.read(512, &mut [0; 1024]).is_err());
    failing.read(1536, &mut [0; 512]).unwrap();
    failing.set(Trigger::Never);
    let mut back = [1; 512];
    failing.read(1024, &mut back).unwrap();
    assert_eq!(back, [0; 512], "the refused write changed the disk");
}

#[test]
fn a_dead_disk_stays_dead() {
    let failing = ErrorDisk::new(disk(), Trigger::From(2), || Error::Poisoned("dead".into()));
    let dead: Vec<bool> = ask_everything(&failing).iter().map(Result::is_err).collect();
    assert_eq!(dead, [false, false, true, true, true, true]);
}

#[test]
fn stats_add_up_over_threads() {
    let counted = StatsDisk::new(disk());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| ask_everything(&counted).into_iter().for_each(|done| done.unwrap())));
        }
    });
    assert!(counted.write(1, &SECTOR, Access::Fua).is_err());
    let expected = DiskStats {
        reads: 100,
        read_bytes: 51_200,
        writes: 100,
        written_bytes: 51_200,
        flushes: 100,
        fua: 100,
        trims: 100,
        trimmed_bytes: 102_400,
        zeroings: 100,
        zeroed_bytes: 102_400,
        errors: 1,
    };
    assert_eq!(counted.stats(), expected);
}

#[test]
fn delays_are_waited_for_before_the_completion() {
    let waited_ns = AtomicU64::new(0);
    let delay = Delay { read_ns: 1, write_ns: 10, flush_ns: 1000 };
    let slow = DelayDisk::new(disk(), delay, |ns| {
        waited_ns.fetch_add(ns, Ordering::SeqCst);
    });
    ask_everything(&slow).into_iter().for_each(|done| done.unwrap());
    assert_eq!(waited_ns.load(Ordering::SeqCst), 1031);
}

#[test]
fn read_only_refuses_every_change() {
    let fixed = ReadOnlyDisk::new(disk());
    let refused: Vec<bool> = ask_everything(&fixed).iter().map(|done| matches!(done, Err(Error::ReadOnly))).collect();
    assert_eq!(refused, [true, false, true, true, false, false]);
    assert!(fixed.geometry().read_only);
}

/// A place to write that can be read afterwards, and that fails once `room` bytes are used up.
#[derive(Clone)]
struct Sink {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Sink {
    fn new(room: usize) -> Self {
        Self { bytes: Arc::default(), room }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Sink {
    fn write(&mut self, from: &[u8]) -> std::io::Result<usize> {
        let mut bytes = self.bytes.lock().unwrap();
        if bytes.len() + from.len() > self.room {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        bytes.extend_from_slice(from);
        Ok(from.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A traced disk whose clock moves 1.5 ms at each look.
fn traced(format: TraceFormat, sink: &Sink) -> impl Disk + use<> {
    let now_ns = AtomicU64::new(0);
    let clock_ns = move || now_ns.fetch_add(1_500_000, Ordering::SeqCst);
    TraceDisk::new(disk(), Trace { format, name: "/dev/x".into(), clock_ns, to: Box::new(sink.clone()) })
}

#[test]
fn the_fio_trace_is_what_fio_replays() {
    let sink = Sink::new(4096);
    ask_everything(&traced(TraceFormat::FioIolog, &sink)).into_iter().for_each(|done| done.unwrap());
    let expected = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n0 /dev/x write 512 512\n1500 /dev/x read 512 512\n\
                    3000 /dev/x write 512 1024\n4500 /dev/x trim 512 1024\n6000 /dev/x sync 0 0\n";
    assert_eq!(sink.text(), expected);
}

#[test]
fn the_blkparse_trace_has_a_line_for_each_end_of_a_request() {
    let sink = Sink::new(4096);
    let disk = traced(TraceFormat::Blkparse, &sink);
    disk.write(512, &SECTOR, Access::Fua).unwrap();
    assert!(disk.read(1, &mut [0; 512]).is_err());
    let words: Vec<Vec<String>> =
        sink.text().lines().map(|line| line.split_whitespace().skip(3).map(str::to_owned).collect()).collect();
    let expected = [
        ["0.000000000", "0", "Q", "WF", "1", "+", "1", "[/dev/x]"],
        ["0.001500000", "0", "C", "WF", "1", "+", "1", "[0]"],
        ["0.003000000", "0", "Q", "R", "0", "+", "1", "[/dev/x]"],
        ["0.004500000", "0", "C", "R", "0", "+", "1", "[-5]"],
    ];
    assert_eq!(words, expected);
}

/// A trace that does not fit is reported at its end, and fails no request.
#[test]
fn a_trace_that_cannot_be_written_is_told() {
    let trace = Trace { format: TraceFormat::FioIolog, name: "x".into(), clock_ns: || 0, to: Box::new(Sink::new(60)) };
    let disk = TraceDisk::new(disk(), trace);
    ask_everything(&disk).into_iter().for_each(|done| done.unwrap());
    assert!(matches!(disk.finish(), Err(Error::NoSpace(_))));
}
