//! Rules Q1 to Q4 for every kind of queue, by random requests beside a byte array.

use std::collections::HashMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ferrite_memory::planted::plant;
use ferrite_memory::{Error, Span};
use proptest::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::*;

const SECTOR: u64 = 4096;
const SECTORS: u64 = 64;
const SIZE: u64 = SECTORS * SECTOR;

/// A disk and what keeps it there.
pub(crate) struct Kind {
    name: String,
    disk: Box<dyn Disk>,
    _file: Option<tempfile::NamedTempFile>,
}

fn file(folder: &Path, options: FileDiskOptions) -> Kind {
    let mut file = tempfile::NamedTempFile::new_in(folder).unwrap();
    file.write_all(&vec![0; SIZE as usize]).unwrap();
    let disk = Box::new(FileDisk::open(file.path(), &options).unwrap());
    Kind { name: format!("{} with {options:?}", folder.display()), disk, _file: Some(file) }
}

fn files() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for thread_queues in [false, true] {
        let options = FileDiskOptions { thread_queues, ..FileDiskOptions::default() };
        kinds.push(file(&std::env::temp_dir(), options));
        kinds.push(file(&std::env::temp_dir(), FileDiskOptions { buffered: true, ..options }));
        kinds.push(file(Path::new("/dev/shm"), options));
    }
    kinds
}

fn in_memory(name: &str, disk: impl Disk + 'static) -> Kind {
    Kind { name: name.into(), disk: Box::new(disk), _file: None }
}

fn ram() -> RamDisk {
    RamDisk::with_geometry(Geometry { sector_bytes: SECTOR as u32, ..RamDisk::new(SIZE).geometry() })
}

/// The clock of the host, as front ends have it.
struct TestClock(std::time::Instant);

impl TestClock {
    fn new() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Clock for TestClock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }

    fn wait_until_ns(&self, until_ns: u64) {
        std::thread::sleep(Duration::from_nanos(until_ns.saturating_sub(self.now_ns())));
    }
}

fn drives() -> Vec<Kind> {
    let ssd = SsdProfile::nvme();
    let hdd = HddProfile::rpm_7200().with_capacity(SIZE);
    vec![
        in_memory("an SSD by the host's clock", SsdDisk::new(ram(), &ssd, TestClock::new(), 1)),
        in_memory("an SSD by a virtual clock", SsdDisk::new(ram(), &ssd, VirtualClock::default(), 1)),
        in_memory("a hard disk by a virtual clock", HddDisk::new(ram(), &hdd, VirtualClock::default(), 1)),
    ]
}

/// Every wrapping disk that changes no data, over disks with and without a queue.
fn wrappers() -> Vec<Kind> {
    let clock = Arc::new(VirtualClock::default());
    let ssd = || SsdDisk::new(ram(), &SsdProfile::nvme(), Arc::clone(&clock), 1);
    let delay = Delay { read_ns: 20_000, write_ns: 50_000, flush_ns: 0 };
    let trace =
        Trace { format: TraceFormat::Blkparse, name: "x".into(), clock_ns: || 0, to: Box::new(std::io::sink()) };
    let file = file(&std::env::temp_dir(), FileDiskOptions::default());
    let harmless = || FaultPlan::of(FaultAction::Hang, FaultCondition { from: Some(u64::MAX), ..Default::default() });
    let counted = FaultDisk::new(StatsDisk::new(file.disk), harmless());
    vec![
        in_memory("a counted SSD", StatsDisk::new(ssd())),
        in_memory("a traced SSD", TraceDisk::new(ssd(), trace)),
        in_memory("a delayed SSD", DelayDisk::new(ssd(), delay, Arc::clone(&clock))),
        in_memory("delayed memory", DelayDisk::new(ram(), delay, TestClock::new())),
        in_memory("faulty memory", FaultDisk::new(ram(), harmless())),
        in_memory("a pointer to a faulty, delayed, faulty SSD", {
            let inner = DelayDisk::new(FaultDisk::new(ssd(), harmless()), delay, Arc::clone(&clock));
            Arc::new(FaultDisk::new(inner, harmless())) as Arc<dyn Disk>
        }),
        Kind { disk: Box::new(counted), name: format!("counted: {}", file.name), _file: file._file },
    ]
}

/// One disk for each kind of queue.
fn kinds() -> Vec<Kind> {
    files().into_iter().chain(drives()).chain(wrappers()).collect()
}

#[derive(Clone, Debug)]
enum Step {
    /// Submit to one of the two queues.
    Submit(usize, Op, Span, u8),
    Collect(usize, Wait),
    /// Execute in the calling thread, beside the queues.
    Call(Op, Span, u8),
}

fn an_op() -> impl Strategy<Value = Op> {
    let access = || prop_oneof![3 => Just(Access::Cached), 1 => Just(Access::Fua)];
    let zeroing =
        (access(), any::<bool>()).prop_map(|(access, keep_space)| Zeroing { access, keep_space, fast: false });
    prop_oneof![
        4 => Just(Op::Read),
        4 => access().prop_map(Op::Write),
        1 => Just(Op::Flush),
        1 => access().prop_map(Op::Trim),
        1 => zeroing.prop_map(Op::Zero),
    ]
}

/// Mostly whole sectors within the disk, sometimes more than one transfer moves at once.
fn a_span() -> impl Strategy<Value = Span> {
    let whole = |most: u64| (0..SECTORS + 2, 0..most).prop_map(|(at, len)| Span::new(at * SECTOR, len * SECTOR));
    prop_oneof![20 => whole(4), 2 => whole(SECTORS), 1 => Just(Span::new(1, 512))]
}

fn a_step() -> impl Strategy<Value = Step> {
    let wait = prop_oneof![Just(Wait::No), Just(Wait::AtMost(Duration::from_millis(20))), Just(Wait::Forever)];
    prop_oneof![
        8 => (0..2_usize, an_op(), a_span(), 1_u8..).prop_map(|(queue, op, span, fill)| Step::Submit(queue, op, span, fill)),
        2 => (0..2_usize, wait).prop_map(|(queue, wait)| Step::Collect(queue, wait)),
        1 => (an_op(), a_span(), 1_u8..).prop_map(|(op, span, fill)| Step::Call(op, span, fill)),
    ]
}

fn request(op: Op, span: Span, fill: u8, token: u64) -> Request {
    let bytes = if matches!(op, Op::Read | Op::Write(_)) { span.len as usize } else { 0 };
    Request { token, op, span: if op == Op::Flush { Span::new(0, 0) } else { span }, buffer: vec![fill; bytes] }
}

fn is_readable(queue: &dyn Queue, wait: Duration) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(queue.descriptor(), PollFlags::IN)];
    poll(&mut asked, Some(&Timespec::try_from(wait).unwrap())).unwrap() == 1
}

/// One queue and the completions that are owed to it.
struct ModelQueue {
    queue: Box<dyn Queue>,
    owed: HashMap<u64, (Completion, Span, bool)>,
}

impl ModelQueue {
    fn meet(&mut self, got: &Completion, name: &str) {
        let (wanted, ..) =
            self.owed.remove(&got.token).unwrap_or_else(|| panic!("{name}: Q1: {} is not owed", got.token));
        assert_eq!(got.result.is_ok(), wanted.result.is_ok(), "{name}: {got:?}");
        assert!(got.buffer == wanted.buffer, "{name}: Q2: wrong bytes in request {}", got.token);
    }

    fn collect(&mut self, wait: Wait, name: &str) {
        let mut got = Vec::new();
        let (count, owed) = (self.queue.collect(wait, &mut got).unwrap(), self.owed.len());
        assert_eq!(count, got.len(), "{name}");
        assert!(wait != Wait::Forever || owed == 0 || count > 0, "{name}: collect waited for nothing");
        got.iter().for_each(|got| self.meet(got, name));
        assert_eq!(self.queue.in_flight(), self.owed.len(), "{name}");
    }

    /// Collects everything, by the descriptor alone (Q4).
    fn drain(&mut self, name: &str) {
        let mut rounds = 0;
        while !self.owed.is_empty() {
            assert!(is_readable(&*self.queue, Duration::from_secs(5)), "{name}: Q4: not readable");
            self.collect(Wait::AtMost(Duration::from_millis(1)), name);
            rounds += 1;
            assert!(rounds < 100_000, "{name}: readable without completions");
        }
        self.collect(Wait::Forever, name);
    }

    /// Whether a request in flight and `span` have bytes in common, of which one of the two changes some.
    fn conflicts(&self, span: Span, changes: bool) -> bool {
        let meets = |other: &Span| span.at < other.at + other.len && other.at < span.at + span.len;
        self.owed.values().any(|(_, other, changed)| (changes || *changed) && meets(other))
    }
}

/// Runs `steps` at a disk and at a RAM disk, and compares all completions and the content.
fn follow(kind: &Kind, steps: &[Step]) {
    let (disk, name) = (&*kind.disk, &*kind.name);
    let model = RamDisk::with_geometry(disk.geometry());
    let open = || ModelQueue { queue: disk.queue().unwrap().expect("a queue"), owed: HashMap::new() };
    let mut queues = [open(), open()];
    for (token, step) in steps.iter().enumerate() {
        let token = token as u64;
        if let Step::Submit(_, op, span, _) | Step::Call(op, span, _) = step {
            let changes = !matches!(op, Op::Read | Op::Flush);
            if queues.iter().any(|queue| queue.conflicts(*span, changes)) {
                queues.iter_mut().for_each(|queue| queue.drain(name));
            }
        }
        match step.clone() {
            Step::Submit(at, op, span, fill) => {
                let wanted = request(op, span, fill, token).execute(&model);
                queues[at].owed.insert(token, (wanted, span, !matches!(op, Op::Read | Op::Flush)));
                let done = queues[at].queue.submit(request(op, span, fill, token));
                done.iter().for_each(|done| queues[at].meet(done, name));
            }
            Step::Collect(at, wait) => queues[at].collect(wait, name),
            Step::Call(op, span, fill) => {
                let wanted = request(op, span, fill, token).execute(&model);
                let got = request(op, span, fill, token).execute(disk);
                assert!(got.result.is_ok() == wanted.result.is_ok() && got.buffer == wanted.buffer, "{name}: {step:?}");
            }
        }
    }
    queues.iter_mut().for_each(|queue| queue.drain(name));
    let read = |disk: &dyn Disk| request(Op::Read, Span::new(0, SIZE), 0, 0).execute(disk).buffer;
    assert!(read(disk) == read(&model), "{name}: the content differs");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 8, failure_persistence: None, ..ProptestConfig::default() })]

    /// Q1, Q2, Q4: every request completes once, at its queue, with its own buffer, and the descriptor reports it.
    #[test]
    fn queued_requests_do_what_calls_do(steps in prop::collection::vec(a_step(), 1..50)) {
        kinds().iter().for_each(|kind| follow(kind, &steps));
    }
}

/// Requests that any queue executes: writes and reads of a few sectors, and a flush.
fn a_few() -> Vec<Step> {
    let write = |at| Step::Submit(0, Op::Write(Access::Cached), Span::new(at * SECTOR, SECTOR), at as u8 + 1);
    let read = |at| Step::Submit(1, Op::Read, Span::new(at * SECTOR, SECTOR), 9);
    vec![write(0), write(1), read(8), Step::Submit(0, Op::Flush, Span::new(0, 0), 0), read(9), write(2)]
}

#[test]
fn canary_queues_that_break_their_rules_are_found() {
    for bug in ["disk: queue loses a completion", "disk: queue does not signal its descriptor"] {
        let found = kinds().iter().any(|kind| {
            let _bug = plant(bug);
            catch_unwind(AssertUnwindSafe(|| follow(kind, &a_few()))).is_err()
        });
        assert!(found, "{bug} was not found");
    }
}

/// Q2: a queue that is dropped with requests in flight leaves the disk whole, and what was in flight is old or new.
#[test]
fn a_dropped_queue_ends_its_requests() {
    for kind in kinds() {
        for round in 1..20_u8 {
            let mut queue = kind.disk.queue().unwrap().expect("a queue");
            let last = vec![round; SIZE as usize];
            for sector in 0..SECTORS {
                let span = Span::new(sector * SECTOR, SECTOR);
                let _ = queue.submit(request(Op::Write(Access::Cached), span, round, sector));
                let _ = queue.submit(request(Op::Read, span, 0, sector));
            }
            drop(queue);
            kind.disk.write(0, &last, Access::Cached).unwrap();
            let mut content = vec![0; SIZE as usize];
            kind.disk.read(0, &mut content).unwrap();
            assert!(content == last, "{}: a request of the dropped queue came later", kind.name);
        }
    }
}

/// A file that another program truncates gives errors: neither zeros, nor a file that is as long as before.
fn truncation_is_an_error() {
    for folder in [std::env::temp_dir(), "/dev/shm".into()] {
        for options in [FileDiskOptions::default(), FileDiskOptions { thread_queues: true, ..Default::default() }] {
            let kind = file(&folder, options);
            let lost = kind._file.as_ref().unwrap();
            lost.as_file().set_len(2 * SECTOR + 100).unwrap();
            let mut queue = kind.disk.queue().unwrap().unwrap();
            let span = Span::new(SECTOR, 4 * SECTOR);
            let zero = Op::Zero(Zeroing::default());
            for op in [Op::Read, Op::Write(Access::Cached), Op::Write(Access::Fua), Op::Trim(Access::Cached), zero] {
                let mut got = Vec::from_iter(queue.submit(request(op, span, 1, 7)));
                queue.collect(Wait::Forever, &mut got).unwrap();
                for got in [got.pop().unwrap(), request(op, span, 1, 7).execute(&*kind.disk)] {
                    let message = got.result.expect_err(&format!("{}: {op:?}", kind.name)).to_string();
                    assert!(message.contains("truncated the file to 8292 bytes"), "{message}");
                }
            }
            assert_eq!(lost.as_file().metadata().unwrap().len(), 2 * SECTOR + 100);
            kind.disk.write(0, &[1; SECTOR as usize], Access::Fua).unwrap();
        }
    }
}

#[test]
fn a_truncated_file_is_an_error() {
    truncation_is_an_error();
}

#[test]
fn canary_a_write_that_extends_a_truncated_file_is_found() {
    let _bug = plant("disk: write extends a truncated file");
    assert!(catch_unwind(truncation_is_an_error).is_err());
}

/// D1 and read-only disks: a queue refuses what the disk's own methods refuse, and changes nothing.
#[test]
fn queues_refuse_what_calls_refuse() {
    for thread_queues in [false, true] {
        let scratch = file(&std::env::temp_dir(), FileDiskOptions::default());
        let path = scratch._file.as_ref().unwrap().path();
        let options = FileDiskOptions { read_only: true, thread_queues, ..FileDiskOptions::default() };
        drop(scratch.disk);
        let disk = FileDisk::open(path, &options).unwrap();
        let mut queue = disk.queue().unwrap().unwrap();
        let mut collect = |op, span| {
            let mut got = Vec::from_iter(queue.submit(request(op, span, 1, 0)));
            queue.collect(Wait::Forever, &mut got).unwrap();
            got.pop().unwrap().result
        };
        let span = Span::new(0, SECTOR);
        assert!(matches!(collect(Op::Write(Access::Cached), span), Err(Error::ReadOnly)));
        assert!(matches!(collect(Op::Trim(Access::Fua), span), Err(Error::ReadOnly)));
        assert!(matches!(collect(Op::Read, Span::new(SIZE, SECTOR)), Err(Error::OutOfRange { .. })));
        collect(Op::Flush, span).unwrap();
        collect(Op::Read, span).unwrap();
    }
}
