//! What holds for every simulated disk. Timings are in the tests of each.

use std::cell::Cell;
use std::collections::HashMap;
use std::panic::catch_unwind;
use std::sync::{Arc, Condvar, Mutex};

use ferrite_memory::planted::{PlantedBug, plant, plant_with};
use proptest::prelude::*;

use super::*;
use crate::sim_ssd::ScriptedLayer;
use crate::{
    Completion, HddDisk, HddProfile, Op, RamDisk, ReadOnlyDisk, ReclaimWork, Request, SsdDisk, SsdProfile, Wait,
};

const SIZE: u64 = 256 << 10;

/// Asserts that `test` fails while `bug` is planted.
pub(crate) fn assert_found(test: fn(), bug: &str) {
    assert_found_by(test, plant(bug));
}

fn assert_found_by(test: fn(), bug: PlantedBug) {
    let found = catch_unwind(test);
    assert!(found.is_err(), "{bug:?} was not found");
}

/// One of each kind, on RAM disks, with caches so small that they fill.
fn disks(seed: u64) -> Vec<Box<dyn Disk>> {
    let mut disks: Vec<Box<dyn Disk>> = Vec::new();
    for cache in [WriteCache::Off, WriteCache::Volatile(16 << 10), WriteCache::Protected(16 << 10)] {
        let hdd = HddProfile { cache, ..HddProfile::rpm_7200().with_capacity(SIZE) };
        disks.push(Box::new(HddDisk::new(RamDisk::new(SIZE), &hdd, VirtualClock::default(), seed)));
        let ssd = SsdProfile { cache, ..SsdProfile::x25e() };
        disks.push(Box::new(SsdDisk::new(RamDisk::new(SIZE), &ssd, VirtualClock::default(), seed)));
        let layer = ScriptedLayer::new(ReclaimWork { copied_pages: 3, erases: 1 });
        disks.push(Box::new(SsdDisk::aged(RamDisk::new(SIZE), &ssd, layer, VirtualClock::default(), seed)));
    }
    disks
}

#[derive(Clone, Debug)]
enum Step {
    Call(Op, Span, u8),
    Submit(Op, Span, u8),
    Collect(Wait),
}

fn op() -> impl Strategy<Value = Op> {
    let access = prop_oneof![Just(Access::Cached), Just(Access::Fua)];
    let zeroing =
        (access.clone(), any::<bool>()).prop_map(|(access, keep_space)| Zeroing { access, keep_space, fast: false });
    prop_oneof![
        3 => Just(Op::Read),
        4 => access.clone().prop_map(Op::Write),
        1 => Just(Op::Flush),
        1 => access.prop_map(Op::Trim),
        1 => zeroing.prop_map(Op::Zero),
    ]
}

/// Mostly whole sectors within the disk.
fn span() -> impl Strategy<Value = Span> {
    let whole = (0..540_u64, 0..80_u64).prop_map(|(at, len)| Span::new(at * 512, len * 512));
    prop_oneof![20 => whole, 1 => Just(Span::new(1, 512))]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (op(), span(), any::<u8>()).prop_map(|(op, span, fill)| Step::Call(op, span, fill)),
        4 => (op(), span(), any::<u8>()).prop_map(|(op, span, fill)| Step::Submit(op, span, fill)),
        1 => prop_oneof![Just(Wait::No), Just(Wait::Forever)].prop_map(Step::Collect),
    ]
}

fn request(op: Op, span: Span, fill: u8, token: u64) -> Request {
    let span = if op == Op::Flush { Span::new(0, 0) } else { span };
    let bytes = if matches!(op, Op::Read | Op::Write(_)) { span.len as usize } else { 0 };
    Request { token, op, span, buffer: vec![fill; bytes] }
}

fn assert_same(got: &Completion, expected: &Completion) {
    assert_eq!(got.result.is_ok(), expected.result.is_ok(), "{got:?}");
    assert_eq!(got.buffer, expected.buffer, "token {}", got.token);
}

/// Runs `steps` on `disk` and on a RAM disk, and compares all completions and the content.
fn follow(disk: &dyn Disk, steps: &[Step]) {
    let model = RamDisk::new(SIZE);
    let mut expected: HashMap<u64, Completion> = HashMap::new();
    let meet = |expected: &mut HashMap<u64, Completion>, got: Completion| {
        let wanted = expected.remove(&got.token).expect("a completion of nothing that is pending");
        assert_same(&got, &wanted);
    };
    let mut queue = disk.queue().unwrap().expect("a queue");
    for (token, step) in steps.iter().enumerate() {
        let token = token as u64;
        match step.clone() {
            Step::Call(op, span, fill) => {
                let wanted = request(op, span, fill, token).execute(&model);
                assert_same(&request(op, span, fill, token).execute(disk), &wanted);
            }
            Step::Submit(op, span, fill) => {
                expected.insert(token, request(op, span, fill, token).execute(&model));
                queue.submit(request(op, span, fill, token)).into_iter().for_each(|got| meet(&mut expected, got));
            }
            Step::Collect(wait) => {
                let mut done = Vec::new();
                queue.collect(wait, &mut done).unwrap();
                assert!(wait == Wait::No || expected.is_empty() || !done.is_empty(), "collect waited for nothing");
                done.into_iter().for_each(|got| meet(&mut expected, got));
            }
        }
    }
    while !expected.is_empty() {
        let mut done = Vec::new();
        queue.collect(Wait::Forever, &mut done).unwrap();
        done.into_iter().for_each(|got| meet(&mut expected, got));
    }
    let (mut content, mut wanted) = (vec![1; SIZE as usize], vec![0; SIZE as usize]);
    disk.read(0, &mut content).unwrap();
    model.read(0, &mut wanted).unwrap();
    assert!(content == wanted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// SD1, SD2, SD5: the data, the refusals, and one completion for each request, by blocking calls and submitted ones.
    #[test]
    fn the_data_is_a_ram_disks(steps in prop::collection::vec(step(), 0..60), seed in any::<u64>()) {
        disks(seed).iter().for_each(|disk| follow(&**disk, &steps));
    }
}

/// A disk that writes down what reaches it, and does none of it.
struct Failing(RamDisk, Mutex<Vec<Op>>);

impl Failing {
    fn fail(&self, op: Op) -> Result<()> {
        self.1.lock().unwrap().push(op);
        Err(Error::Damaged(0))
    }
}

impl Disk for Failing {
    fn geometry(&self) -> Geometry {
        Geometry { volatile_cache: true, ..self.0.geometry() }
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
        self.fail(Op::Read)
    }

    fn write(&self, _: u64, _: &[u8], access: Access) -> Result<()> {
        self.fail(Op::Write(access))
    }

    fn flush(&self) -> Result<()> {
        self.fail(Op::Flush)
    }

    fn trim(&self, _: Span, access: Access) -> Result<()> {
        self.fail(Op::Trim(access))
    }

    fn write_zeroes(&self, _: Span, how: Zeroing) -> Result<()> {
        self.fail(Op::Zero(how))
    }
}

/// SD1: whatever is asked of it is asked of the inner disk, as it was said, and has failed where that fails: no flush is
/// left out, and no FUA.
#[test]
fn everything_reaches_the_inner_disk_and_its_failures_come_back() {
    let zero = |access| Op::Zero(Zeroing { access, ..Zeroing::default() });
    let (cached, fua) = (Access::Cached, Access::Fua);
    let ops = [
        Op::Read,
        Op::Write(cached),
        Op::Write(fua),
        Op::Flush,
        Op::Trim(cached),
        Op::Trim(fua),
        zero(cached),
        zero(fua),
    ];
    let inner = Failing(RamDisk::new(SIZE), Mutex::default());
    let disk = SsdDisk::new(inner, &SsdProfile::x25e(), VirtualClock::default(), 1);
    let mut queue = disk.queue().unwrap().unwrap();
    for op in ops {
        let asked = || request(op, Span::new(0, 4096), 1, 0);
        assert!(asked().execute(&disk).result.is_err(), "{op:?}");
        assert!(queue.submit(asked()).is_none());
        let mut done = Vec::new();
        assert_eq!(queue.collect(Wait::Forever, &mut done).unwrap(), 1);
        assert!(done[0].result.is_err(), "{op:?}, submitted");
        assert_eq!(std::mem::take(&mut *disk.inner().1.lock().unwrap()), [op, op]);
    }
}

/// SD1: a client that sees no cache flushes nothing.
#[test]
fn the_cache_of_the_inner_disk_is_told_of() {
    let inner = || Failing(RamDisk::new(SIZE), Mutex::default());
    let (ssd, hdd) = (SsdProfile::x25e(), HddProfile::rpm_7200());
    let (ssd, hdd) = (SsdProfile { cache: WriteCache::Off, ..ssd }, HddProfile { cache: WriteCache::Off, ..hdd });
    assert!(SsdDisk::new(inner(), &ssd, VirtualClock::default(), 1).geometry().volatile_cache);
    assert!(HddDisk::new(inner(), &hdd, VirtualClock::default(), 1).geometry().volatile_cache);
}

/// SD3: the same requests take the same time, to the nanosecond; with another seed another.
#[test]
fn times_follow_from_the_seed() {
    let hdd = |seed| {
        let clock = Arc::new(VirtualClock::default());
        let disk = HddDisk::new(RamDisk::new(SIZE), &HddProfile::rpm_7200(), Arc::clone(&clock), seed);
        (0..20).for_each(|at| disk.read(at * 7919 * 512 % SIZE, &mut [0; 512]).unwrap());
        clock.now_ns()
    };
    let ssd = |seed| {
        let clock = Arc::new(VirtualClock::default());
        let disk = SsdDisk::new(RamDisk::new(SIZE), &SsdProfile::nvme(), Arc::clone(&clock), seed);
        (0..20).for_each(|at| disk.read(at * 4096, &mut [0; 4096]).unwrap());
        clock.now_ns()
    };
    assert_eq!((hdd(1), ssd(1)), (hdd(1), ssd(1)));
    assert!(hdd(1) != hdd(2) && ssd(1) != ssd(2));
}

/// SD5, and an error of the inner disk comes through.
#[test]
fn refusals_take_no_time() {
    let clock = Arc::new(VirtualClock::default());
    let inner = ReadOnlyDisk::new(RamDisk::new(SIZE));
    let disk = SsdDisk::new(inner, &SsdProfile::x25e(), Arc::clone(&clock), 1);
    assert!(matches!(disk.write(0, &[0; 512], Access::Cached), Err(Error::ReadOnly)));
    assert!(matches!(disk.read(1, &mut [0; 512]), Err(Error::OutOfRange { .. })));
    let mut queue = disk.queue().unwrap().unwrap();
    let refused = queue.submit(request(Op::Trim(Access::Cached), Span::new(0, 512), 0, 7)).expect("refused at once");
    assert!(matches!((refused.token, refused.result), (7, Err(Error::ReadOnly))));
    assert_eq!(clock.now_ns(), 0);
    assert!(disk.geometry().read_only);
}

#[test]
fn canary_what_no_simulated_disk_may_do_is_found() {
    assert_found(
        everything_reaches_the_inner_disk_and_its_failures_come_back,
        "disk: flush does not reach the inner disk",
    );
    let plans = Cell::new(0);
    let drift =
        plant_with("disk: times depend on earlier simulations", move || plans.replace(plans.get() + 1) % 7 == 3);
    assert_found_by(times_follow_from_the_seed, drift);
    assert_found(refusals_take_no_time, "disk: refused request takes its time");
}

/// A hard disk zeroes no faster than it writes, and says so.
#[test]
fn a_hard_disk_has_no_fast_zeroes() {
    let disk = HddDisk::new(RamDisk::new(SIZE), &HddProfile::rpm_7200(), VirtualClock::default(), 1);
    let fast = Zeroing { fast: true, ..Zeroing::default() };
    assert!(matches!(disk.write_zeroes(Span::new(0, 512), fast), Err(Error::Unsupported(_))));
    assert!(!disk.geometry().trim);
}

/// A clock that moves when the test says so, and counts who waits.
#[derive(Default)]
struct Manual {
    hands: Mutex<(u64, usize)>,
    moved: Condvar,
}

impl Clock for Manual {
    fn now_ns(&self) -> u64 {
        self.hands.lock().unwrap().0
    }

    fn wait_until_ns(&self, until_ns: u64) {
        let mut hands = self.hands.lock().unwrap();
        hands.1 += 1;
        self.moved.notify_all();
        while hands.0 < until_ns {
            hands = self.moved.wait(hands).unwrap();
        }
        hands.1 -= 1;
    }
}

/// SD4: two threads in blocking calls are in the device at once, and both are done after the time of one.
#[test]
fn blocking_calls_of_two_threads_overlap() {
    let clock = Arc::new(Manual::default());
    let profile = SsdProfile { command_ns: 0, variation_percent: 0, ..SsdProfile::nvme() };
    let disk = SsdDisk::new(RamDisk::new(SIZE), &profile, Arc::clone(&clock), 1);
    std::thread::scope(|scope| {
        for page in 0..2 {
            let disk = &disk;
            scope.spawn(move || disk.read(page * 4096, &mut [0; 4096]).unwrap());
        }
        let mut hands = clock.hands.lock().unwrap();
        while hands.1 < 2 {
            hands = clock.moved.wait(hands).unwrap();
        }
        hands.0 = profile.read_ns * 3 / 2;
        clock.moved.notify_all();
    });
}
