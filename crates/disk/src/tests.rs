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
    let clock = Arc::new(VirtualClock::default());
    let delay = Delay { read_ns: 1, write_ns: 10, flush_ns: 1000 };
    let slow = DelayDisk::new(disk(), delay, Arc::clone(&clock));
    ask_everything(&slow).into_iter().for_each(|done| done.unwrap());
    assert_eq!(clock.now_ns(), 1031);
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

/// A drive with a queue.
fn drive() -> SsdDisk<RamDisk> {
    SsdDisk::new(disk(), &SsdProfile::x25e(), VirtualClock::default(), 1)
}

/// The requests of [`ask_everything`] by a queue, without the extents.
fn queue_everything(disk: &dyn Disk) -> Vec<Result<()>> {
    let mut queue = disk.queue().unwrap().expect("a queue");
    let span = Span::new(512, 1024);
    let requests = [
        (Op::Write(Access::Fua), SECTOR.to_vec()),
        (Op::Read, vec![0; 512]),
        (Op::Zero(Zeroing::default()), Vec::new()),
        (Op::Trim(Access::Cached), Vec::new()),
        (Op::Flush, Vec::new()),
    ];
    let mut execute = |(op, buffer)| {
        // Every request has the same token, which is the caller's own affair.
        let mut ended = Vec::from_iter(queue.submit(Request { token: 5, op, span, buffer }));
        queue.collect(Wait::Forever, &mut ended).unwrap();
        assert_eq!((ended.len(), ended[0].token, queue.in_flight()), (1, 5, 0));
        ended.remove(0).result
    };
    requests.into_iter().map(&mut execute).collect()
}

fn queued_requests_are_counted() {
    let counted = StatsDisk::new(drive());
    queue_everything(&counted).into_iter().for_each(|done| done.unwrap());
    let by_queue = counted.stats();
    let called = StatsDisk::new(drive());
    ask_everything(&called).into_iter().for_each(|done| done.unwrap());
    assert_eq!(by_queue, called.stats());
    let mut queue = counted.queue().unwrap().unwrap();
    let refused = queue.submit(Request { token: 1, op: Op::Read, span: Span::new(1, 512), buffer: vec![0; 512] });
    assert!(refused.is_some_and(|refused| refused.result.is_err()) && counted.stats().errors == 1);
}

fn queued_requests_are_traced() {
    let trace = |sink: &Sink| {
        let (format, clock_ns) = (TraceFormat::Blkparse, || 0);
        TraceDisk::new(drive(), Trace { format, name: "x".into(), clock_ns, to: Box::new(sink.clone()) })
    };
    let (queued, called) = (Sink::new(4096), Sink::new(4096));
    queue_everything(&trace(&queued)).into_iter().for_each(|done| done.unwrap());
    ask_everything(&trace(&called)).into_iter().for_each(|done| done.unwrap());
    assert_eq!(queued.text(), called.text());
    assert_eq!(queued.text().lines().count(), 10);
}

#[test]
fn queued_requests_are_counted_and_traced_as_calls_are() {
    queued_requests_are_counted();
    queued_requests_are_traced();
}

#[test]
fn canary_a_wrapper_that_a_queue_passes_by_is_found() {
    for test in [queued_requests_are_counted, queued_requests_are_traced] {
        let _bug = ferrite_memory::planted::plant("disk: layer of a queue is left out");
        assert!(std::panic::catch_unwind(test).is_err());
    }
}

#[test]
fn a_read_only_disk_refuses_queued_changes() {
    let results = queue_everything(&ReadOnlyDisk::new(drive()));
    let refused: Vec<bool> = results.iter().map(|done| matches!(done, Err(Error::ReadOnly))).collect();
    assert_eq!(refused, [true, false, true, true, false]);
}

/// The delays of requests in flight overlap, and each kind of request has its own.
#[test]
fn delays_of_queued_requests_overlap() {
    let clock = Arc::new(VirtualClock::default());
    let slow = DelayDisk::new(disk(), Delay { read_ns: 1000, write_ns: 0, flush_ns: 500 }, Arc::clone(&clock));
    let mut queue = slow.queue().unwrap().unwrap();
    let request = |token, op| Request { token, op, span: Span::new(0, 0), buffer: Vec::new() };
    assert!((0..4).all(|token| queue.submit(request(token, Op::Read)).is_none()));
    assert!(queue.submit(request(4, Op::Flush)).is_none());
    assert!(queue.submit(request(5, Op::Write(Access::Cached))).is_some(), "a write has no delay");
    let mut ended = Vec::new();
    assert_eq!(queue.collect(Wait::No, &mut ended).unwrap(), 0);
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut ended).unwrap();
    }
    assert_eq!(ended.iter().map(|ended| ended.token).collect::<Vec<_>>(), [4, 0, 1, 2, 3]);
    assert_eq!(clock.now_ns(), 1000);
}

/// A pointer to a disk has the disk's queue.
#[test]
fn pointers_have_the_queue_of_their_disk() {
    let shared: Arc<dyn Disk> = Arc::new(drive());
    assert!(shared.queue().unwrap().is_some() && <&Arc<dyn Disk> as Disk>::queue(&&shared).unwrap().is_some());
    assert!(Disk::queue(&(Box::new(drive()) as Box<dyn Disk>)).unwrap().is_some());
    assert!(disk().queue().unwrap().is_none(), "memory works in its caller's thread");
}
