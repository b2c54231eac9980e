use std::io::Write;
use std::time::Duration;

use ferrite_memory::planted::plant;
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::*;
use crate::sim_disk::tests::assert_found;
use crate::{FaultDisk, FaultPlan, Op, RamDisk, Request, Wait};

const SECTORS: u64 = 64;

#[derive(Clone, Debug)]
enum Step {
    Write(Span, u8, Access),
    Zero(Span, Zeroing),
    Trim(Span),
    Read(Span),
    Flush,
}

fn a_span() -> impl Strategy<Value = Span> {
    (0..SECTORS, 0..SECTORS).prop_map(|(a, b)| Span::new(a.min(b), a.abs_diff(b)))
}

fn a_step() -> impl Strategy<Value = Step> {
    let access = prop_oneof![3 => Just(Access::Cached), 1 => Just(Access::Fua)];
    let zeroing =
        (any::<bool>(), access.clone()).prop_map(|(keep_space, access)| Zeroing { keep_space, access, fast: false });
    prop_oneof![
        4 => (a_span(), 1u8.., access).prop_map(|(span, byte, access)| Step::Write(span, byte, access)),
        2 => (a_span(), zeroing).prop_map(|(span, how)| Step::Zero(span, how)),
        1 => a_span().prop_map(Step::Trim),
        3 => a_span().prop_map(Step::Read),
        1 => Just(Step::Flush),
    ]
}

fn apply(disk: &dyn Disk, step: &Step) -> Vec<u8> {
    let unit = u64::from(disk.geometry().sector_bytes);
    let bytes = |span: &Span| Span::new(span.at * unit, span.len * unit);
    match step {
        Step::Write(span, byte, access) => {
            disk.write(bytes(span).at, &vec![*byte; bytes(span).len as usize], *access).unwrap();
        }
        Step::Zero(span, how) => disk.write_zeroes(bytes(span), *how).unwrap(),
        Step::Trim(span) => disk.trim(bytes(span), Access::Cached).unwrap(),
        Step::Flush => disk.flush().unwrap(),
        Step::Read(span) => return read(disk, bytes(span)),
    }
    Vec::new()
}

/// Reads to an odd address, so that direct I/O must go through a buffer of its own.
fn read(disk: &dyn Disk, span: Span) -> Vec<u8> {
    let mut bytes = vec![0; span.len as usize + 1];
    disk.read(span.at, &mut bytes[1..]).unwrap();
    bytes.split_off(1)
}

/// Every extent called zero reads as zeros, and the runs cover the span.
fn extents_are_true(disk: &dyn Disk) {
    let all = Span::new(0, disk.geometry().size);
    let (content, mut at) = (read(disk, all), 0);
    for run in disk.extents(all).unwrap() {
        let bytes = &content[at..at + run.len as usize];
        assert!(!run.zero || bytes.iter().all(|byte| *byte == 0), "a run called zero at {at} is not");
        at += run.len as usize;
    }
    assert_eq!(at as u64, all.len);
}

fn follow_model(folder: &Path, options: &FileDiskOptions, steps: &[Step]) {
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(&vec![0; SECTORS as usize * 4096 + 100]).unwrap();
    let disk = FileDisk::open(file.path(), options).unwrap();
    let model = RamDisk::with_geometry(disk.geometry());
    for step in steps {
        assert_eq!(apply(&disk, step), apply(&model, step), "after {step:?} of {steps:?}");
    }
    extents_are_true(&disk);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// A file, direct or not, on a file system that has direct I/O or not, behaves as memory does (D1).
    #[test]
    fn behaves_as_a_disk_in_memory(steps in prop::collection::vec(a_step(), 1..40), buffered: bool) {
        let options = FileDiskOptions { buffered, ..FileDiskOptions::default() };
        follow_model(&std::env::temp_dir(), &options, &steps);
        follow_model(Path::new("/dev/shm"), &options, &steps);
    }
}

/// A file is a disk up to its last whole sector, also where the host takes direct I/O in wider units only.
#[test]
fn the_last_sectors_of_a_file_are_part_of_the_disk() {
    for folder in [std::env::temp_dir(), "/dev/shm".into()] {
        let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
        file.write_all(&vec![7; 3 * 4096 + 512]).unwrap();
        let disk = FileDisk::open(file.path(), &FileDiskOptions::default()).unwrap();
        let geometry = disk.geometry();
        assert_eq!((geometry.size, geometry.sector_bytes), (3 * 4096 + 512, 512));
        assert_eq!(read(&disk, Span::new(3 * 4096, 512)), vec![7; 512]);
        disk.write(3 * 4096, &[8; 512], Access::Fua).unwrap();
        assert_eq!(std::fs::read(file.path()).unwrap()[3 * 4096..], [8; 512]);
    }
}

#[test]
fn refuses_what_is_outside_or_unaligned() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let disk = FileDisk::open(file.path(), &FileDiskOptions::default()).unwrap();
    for (at, len) in [(1, 512), (0, 100), (1 << 20, 512), (u64::MAX - 511, 512)] {
        let done = disk.write(at, &vec![0; len], Access::Cached);
        assert!(matches!(done, Err(Error::OutOfRange { .. })), "D1: {len} bytes at {at} gave {done:?}");
    }
}

#[test]
fn read_only_refuses_every_change() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let disk = FileDisk::open(file.path(), &FileDiskOptions { read_only: true, ..FileDiskOptions::default() }).unwrap();
    let span = Span::new(0, 4096);
    assert!(matches!(disk.write(0, &[1; 4096], Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.trim(span, Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.write_zeroes(span, Zeroing::default()), Err(Error::ReadOnly)));
    assert_eq!(read(&disk, span), vec![0; 4096]);
}

/// D2: a flush that the host refuses is an error, and no later one may pretend otherwise.
#[test]
fn a_failed_flush_is_never_forgotten() {
    let mut pipe = [0; 2];
    // SAFETY: the call fills two descriptors, which the two files own from here on.
    let ends = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        pipe.map(|fd| <File as std::os::fd::FromRawFd>::from_raw_fd(fd))
    };
    let host_sync = HostSync::default();
    let sound = tempfile::tempfile().unwrap();
    host_sync.sync(&sound).unwrap();
    assert!(matches!(host_sync.sync(&ends[1]), Err(Error::Io { .. })), "a pipe cannot be synced");
    assert!(matches!(host_sync.sync(&sound), Err(Error::Poisoned(_))));
}

#[test]
fn what_is_no_disk_is_refused_by_name() {
    let message = FileDisk::open(Path::new("/dev/null"), &FileDiskOptions::default()).err().unwrap().to_string();
    assert!(message.contains("/dev/null"), "{message}");
}

/// D2: the kernel reports a loss once. A write with FUA may get the report of another write's loss, so every later flush
/// fails.
#[test]
fn d2_no_flush_is_well_after_a_durable_write_that_failed() {
    let path = tempfile::NamedTempFile::new().unwrap();
    path.as_file().set_len(64 << 10).unwrap();
    let options = FileDiskOptions { buffered: true, ..FileDiskOptions::default() };
    let mut disk = FileDisk::open(path.path(), &options).unwrap();
    disk.write(0, &[1; 512], Access::Cached).unwrap();
    disk.flush().unwrap();
    let writable = std::mem::replace(&mut disk.file, Arc::new(File::open(path.path()).unwrap()));
    disk.write(512, &[2; 512], Access::Fua).unwrap_err();
    disk.file = writable;
    assert!(matches!(disk.flush(), Err(Error::Poisoned(_))));
}

/// A ring whose file is a pipe, so that the test decides when a read ends. A pipe cannot be synced.
fn ring_on_a_pipe() -> (RingQueue, File) {
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let reader = File::from(reader);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 10).unwrap();
    let options = FileDiskOptions { buffered: true, ..FileDiskOptions::default() };
    let disk = FileDisk::open(file.path(), &options).unwrap();
    let ring = ring::Ring::new(reader.try_clone().unwrap(), reader).unwrap();
    (RingQueue::with_ring(ring, disk), writer.into())
}

fn request(op: Op, len: usize) -> Request {
    Request { token: 1, op, span: Span::new(0, len as u64), buffer: vec![0; len] }
}

/// Q2: a dropped ring waits for the kernel, which may still write to the buffers.
fn a_dropped_ring_waits(bug: Option<&'static str>) {
    let (mut queue, mut writer) = ring_on_a_pipe();
    assert!(queue.submit(request(Op::Read, 4096)).is_none());
    let (send, dropped) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _bug = bug.map(plant);
        drop(queue);
        send.send(()).unwrap();
    });
    let is_early = dropped.recv_timeout(Duration::from_millis(100)).is_ok();
    // The reading end is closed if the drop was early.
    let _ = writer.write_all(&[1; 4096]);
    thread.join().unwrap();
    assert!(!is_early, "the queue was gone while the kernel had its buffer");
}

/// Q2: dropped threads finish the requests that they have begun.
fn dropped_threads_wait(bug: Option<&'static str>) {
    let disk = Arc::new(FaultDisk::new(RamDisk::new(64 << 10), "hang".parse().unwrap()));
    let mut queue = ThreadQueue::open(Arc::clone(&disk)).unwrap();
    assert!(queue.submit(request(Op::Write(Access::Cached), 4096)).is_none());
    while disk.faults().requests() == 0 {
        std::thread::yield_now();
    }
    let (send, dropped) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let _bug = bug.map(plant);
        drop(queue);
        send.send(()).unwrap();
    });
    let is_early = dropped.recv_timeout(Duration::from_millis(100)).is_ok();
    disk.faults().set(FaultPlan::default());
    thread.join().unwrap();
    assert!(!is_early, "the queue was gone while a thread had its buffer");
}

#[test]
fn q2_a_dropped_queue_waits_for_requests_that_have_begun() {
    a_dropped_ring_waits(None);
    dropped_threads_wait(None);
}

/// Q1: a request that the kernel serves in parts completes once, whole.
fn short_transfers_go_on() {
    let (mut queue, mut writer) = ring_on_a_pipe();
    let bytes: Vec<u8> = (0..4096).map(|at| (at % 251) as u8).collect();
    assert!(queue.submit(request(Op::Read, 4096)).is_none());
    let mut ended = Vec::new();
    for part in bytes.chunks(1000) {
        assert!(ended.is_empty(), "a part counts as the whole");
        writer.write_all(part).unwrap();
        queue.collect(Wait::AtMost(Duration::from_millis(100)), &mut ended).unwrap();
    }
    queue.collect(Wait::Forever, &mut ended).unwrap();
    assert!(ended.len() == 1 && ended[0].result.is_ok() && ended[0].buffer == bytes);
}

/// D2, Q3: a flush that the kernel refuses is an error, and so is every later one, by the queue and by the disk.
fn a_refused_sync_is_an_error() {
    let (mut queue, _writer) = ring_on_a_pipe();
    let mut ended = Vec::new();
    for _ in 0..2 {
        assert!(queue.submit(request(Op::Flush, 0)).is_none());
    }
    while queue.in_flight() > 0 {
        queue.collect(Wait::Forever, &mut ended).unwrap();
    }
    assert!(ended.len() == 2 && ended.iter().all(|ended| ended.result.is_err()), "{ended:?}");
    let late = queue.submit(request(Op::Flush, 0)).expect("refused at once");
    assert!(matches!(late.result, Err(Error::Poisoned(_))));
}

#[test]
fn q1_a_request_in_parts_completes_once() {
    short_transfers_go_on();
}

#[test]
fn q3_a_refused_sync_is_an_error() {
    a_refused_sync_is_an_error();
}

#[test]
fn canary_rings_and_threads_that_break_their_rules_are_found() {
    let found = |test: fn(Option<&'static str>), bug| std::panic::catch_unwind(|| test(Some(bug))).is_err();
    assert!(found(a_dropped_ring_waits, "disk: dropped queue does not wait"));
    assert!(found(dropped_threads_wait, "disk: dropped queue does not wait"));
    assert_found(short_transfers_go_on, "disk: short transfer counts as whole");
    assert_found(a_refused_sync_is_an_error, "disk: flush of a ring does nothing");
    assert_found(a_second_writer_is_refused, "disk: files are not locked");
    assert_found(a_collected_ring_is_not_readable, "disk: ring stays readable");
}

/// A file that is removed or replaced while its opening waits for the lock is not used: what is written there would be lost.
fn a_file_without_its_name_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("disk");
    let file = File::create(&path).expect("made");
    probe::ensure_named(&file, &path).expect("it has its name");
    std::fs::remove_file(&path).expect("removed");
    let refused = probe::ensure_named(&file, &path).expect_err("it is gone").to_string();
    assert!(refused.contains("removed while it was opened"), "{refused}");
    let _other = File::create(&path).expect("another one");
    assert!(probe::ensure_named(&file, &path).is_err());
}

#[test]
fn a_file_that_loses_its_name_while_it_is_opened_is_refused() {
    a_file_without_its_name_is_refused();
    assert_found(a_file_without_its_name_is_refused, "disk: a removed file is opened");
}

/// Two disks on one file would overwrite each other: a writer is alone, readers share.
fn a_second_writer_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 10).unwrap();
    let open = |read_only| FileDisk::open(file.path(), &FileDiskOptions { read_only, ..FileDiskOptions::default() });
    let refusal = |read_only| open(read_only).err().expect("refused").to_string();
    let writer = open(false).unwrap();
    for (read_only, advice) in [(false, "end that program first"), (true, "open for writing: end that program first")] {
        let message = refusal(read_only);
        assert!(message.contains(file.path().to_str().unwrap()) && message.contains(advice), "{message}");
        assert!(!message.contains('\n'));
    }
    let queue = writer.queue().unwrap();
    drop(writer);
    assert!(open(false).is_err(), "a queue is still open");
    drop(queue);
    let readers = (open(true).unwrap(), open(true).unwrap());
    assert!(refusal(false).contains("read-only"));
    drop(readers);
    open(false).unwrap();
}

#[test]
fn a_file_has_one_writer() {
    a_second_writer_is_refused();
}

/// Q5: once all is collected, a wait for the descriptor waits.
#[test]
fn q5_a_collected_ring_is_not_readable() {
    a_collected_ring_is_not_readable();
}

fn a_collected_ring_is_not_readable() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(64 << 10).unwrap();
    let disk = FileDisk::open(file.path(), &FileDiskOptions::default()).unwrap();
    let mut queue = disk.queue().unwrap().expect("a file has a queue");
    for token in 0..4 {
        let request = Request { token, op: Op::Read, span: Span::new(0, 4096), buffer: vec![0; 4096] };
        let mut completions = Vec::from_iter(queue.submit(request));
        while completions.is_empty() {
            queue.collect(Wait::Forever, &mut completions).unwrap();
        }
        queue.collect(Wait::No, &mut completions).unwrap();
        let mut asked = [PollFd::from_borrowed_fd(queue.descriptor(), PollFlags::IN)];
        let readable = poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap();
        assert_eq!(readable, 0, "Q5: readable with nothing to collect");
    }
}
