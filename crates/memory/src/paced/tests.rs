use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::*;
use crate::{Guard, MapOptions, Mapped, Speed, Survival};

/// A counter of ten ticks in a nanosecond that goes on only by what the memory takes, and by waiting.
#[derive(Default)]
struct Dial {
    tick: AtomicU64,
    looks: AtomicU64,
}

impl Ticks for &Dial {
    fn now(&self) -> u64 {
        self.looks.fetch_add(1, Ordering::SeqCst);
        self.tick.load(Ordering::SeqCst)
    }

    /// One reading takes 7 ticks, which do not count as time of a copy.
    fn now_after_copy(&self) -> u64 {
        self.now() + 7
    }

    fn wait_until(&self, tick: u64) {
        self.tick.fetch_max(tick, Ordering::SeqCst);
    }

    fn per_ns(&self) -> f64 {
        10.0
    }

    fn reading(&self) -> u64 {
        7
    }
}

/// A memory that notes when it was called, and takes 100 ticks for each call.
struct Slow<'a> {
    dial: &'a Dial,
    calls: Mutex<Vec<(&'static str, u64)>>,
    fence_is_durable: bool,
}

impl Slow<'_> {
    fn note(&self, call: &'static str) {
        self.calls.lock().unwrap().push((call, self.dial.tick.fetch_add(100, Ordering::SeqCst)));
    }
}

impl Memory for Slow<'_> {
    fn size(&self) -> u64 {
        1 << 40
    }

    fn survival(&self) -> Survival {
        Survival::none("it is a test's")
    }

    fn fence_is_durable(&self) -> bool {
        self.fence_is_durable
    }

    fn load(&self, _: u64, _: &mut [u8]) {
        self.note("load");
    }

    fn load_hole(&self, _: &mut [u8]) {
        self.note("load_hole");
    }

    fn store(&self, _: u64, _: &[u8], _: Scheme) {
        self.note("store");
    }

    fn zero(&self, _: Span, _: Scheme) {
        self.note("zero");
    }

    fn load_word(&self, _: u64) -> u64 {
        self.note("load_word");
        42
    }

    fn store_word(&self, _: u64, _: u64) {
        self.note("store_word");
    }

    fn store_words(&self, _: &[(u64, &[u8])]) {
        self.note("store_words");
    }

    fn flush(&self, _: Span) {
        self.note("flush");
    }

    fn fence(&self) {
        self.note("fence");
    }

    fn barrier(&self) -> Result<()> {
        self.note("barrier");
        Ok(())
    }
}

const READ_NS: u64 = 1000;
const WRITE_NS: u64 = 5000;

fn paced<'a>(dial: &'a Dial, pace: Pace) -> Paced<Slow<'a>, &'a Dial> {
    Paced::new(Slow { dial, calls: Mutex::default(), fence_is_durable: true }, pace, dial).unwrap()
}

/// What each call took in ticks, from the call to its return.
fn ticks_of_each(memory: &Paced<Slow<'_>, &Dial>) -> Vec<(&'static str, u64)> {
    let (dial, mut buffer, mut took) = (memory.inner.dial, [0; 4096], Vec::new());
    let mut time = |name, call: &mut dyn FnMut()| {
        let start = dial.tick.load(Ordering::SeqCst);
        call();
        took.push((name, dial.tick.load(Ordering::SeqCst) - start));
    };
    time("load", &mut || memory.load(0, &mut buffer));
    time("store", &mut || memory.store(0, &[0; 4096], Scheme::Nt));
    time("zero", &mut || memory.zero(Span::new(0, 4096), Scheme::Nt));
    time("load_word", &mut || assert_eq!(memory.load_word(8), 42));
    time("store_word", &mut || memory.store_word(8, 1));
    time("store_words", &mut || memory.store_words(&[(0, &[0; 4096])]));
    time("flush", &mut || memory.flush(Span::new(0, 8)));
    time("fence", &mut || memory.fence());
    time("barrier", &mut || memory.barrier().unwrap());
    took
}

#[test]
fn absolute_speed_is_latency_and_bandwidth_of_what_is_moved() {
    let dial = Dial::default();
    let pace = Pace { read: Speed::absolute(READ_NS, 1000), write: Speed::absolute(WRITE_NS, 500) };
    let memory = paced(&dial, pace);
    let (read, write) = (READ_NS * 10, WRITE_NS * 10);
    let expected = [
        ("load", read + 40_960),
        ("store", write + 81_920),
        ("zero", write + 81_920),
        ("load_word", read + 80),
        ("store_word", write + 160),
        ("store_words", write + 81_920),
        ("flush", 100),
        ("fence", 100),
        ("barrier", 100),
    ];
    assert_eq!(ticks_of_each(&memory), expected);
}

/// A benchmark on a fresh disk measures the emulated medium: a hole is read as slowly as what was written.
#[test]
fn a_hole_takes_what_a_load_takes() {
    for (speed, expected) in [(Speed::absolute(READ_NS, 1000), READ_NS * 10 + 40_960), (Speed::relative(2.5), 250)] {
        let dial = Dial::default();
        let memory = paced(&dial, Pace { read: speed, ..Pace::default() });
        let took = |call: &dyn Fn()| {
            let start = dial.tick.load(Ordering::SeqCst);
            call();
            dial.tick.load(Ordering::SeqCst) - start
        };
        let hole = took(&|| memory.load_hole(&mut [0; 4096]));
        assert_eq!((hole, took(&|| memory.load(0, &mut [0; 4096]))), (expected, expected));
        let shared: std::sync::Arc<dyn Memory + '_> =
            std::sync::Arc::new(crate::Worn::new(memory, crate::WearUnit::Page));
        assert_eq!(took(&|| shared.load_hole(&mut [0; 4096])), expected, "also behind the counters and a pointer");
    }
}

/// A call of 100 ticks takes `times` 100, without what reading the counter takes; what leaves bytes on their way takes
/// a fence too, and what leaves them in the cache does not.
#[test]
fn relative_speed_is_a_multiple_of_what_the_call_took() {
    let dial = Dial::default();
    let pace = Pace { read: Speed::relative(2.5), write: Speed::relative(20.0) };
    let memory = paced(&dial, pace);
    let expected = [
        ("load", 250),
        ("store", 4000),
        ("zero", 4000),
        ("load_word", 250),
        ("store_word", 2000),
        ("store_words", 2000),
        ("flush", 4000),
        ("fence", 2000),
        ("barrier", 2000),
    ];
    assert_eq!(ticks_of_each(&memory), expected);
    let before = dial.tick.load(Ordering::SeqCst);
    memory.store(0, &[1; 8], Scheme::Writeback);
    assert_eq!(dial.tick.load(Ordering::SeqCst) - before, 2000);
}

#[test]
fn of_both_speeds_the_slower_counts() {
    for (times, expected) in [(2.0, 10_000), (1000.0, 100_000)] {
        let dial = Dial::default();
        let speed = Speed { times, latency_ns: READ_NS, bandwidth_mb_s: None };
        assert_eq!(ticks_of_each(&paced(&dial, Pace::both(speed)))[0], ("load", expected));
    }
}

/// The barrier of a file is its host's time, whatever the medium.
#[test]
fn a_hosts_barrier_is_not_slowed() {
    let dial = Dial::default();
    let inner = Slow { dial: &dial, calls: Mutex::default(), fence_is_durable: false };
    let memory = Paced::new(inner, Pace::both(Speed::relative(9.0)), &dial).unwrap();
    let took = ticks_of_each(&memory);
    assert_eq!(took[7..], [("fence", 900), ("barrier", 100)]);
}

/// Where nothing is added the counter is not looked at, and an access of nothing takes no time.
#[test]
fn an_open_direction_costs_nothing() {
    let dial = Dial::default();
    let memory = paced(&dial, Pace { write: Speed::absolute(5, 5), ..Pace::default() });
    memory.load(0, &mut [0; 64]);
    memory.load_word(0);
    memory.flush(Span::new(0, 8));
    memory.fence();
    memory.store(0, &[], Scheme::Nt);
    assert_eq!(dial.looks.load(Ordering::SeqCst), 0);
}

/// The copy is done before the wait, so a call never returns early: first the bytes are there, then the delay is
/// over, then the call returns.
#[test]
fn the_copy_comes_first_then_the_wait_then_the_completion() {
    let dial = Dial::default();
    let memory = paced(&dial, Pace::both(Speed::absolute(WRITE_NS, 1_000_000)));
    memory.store(0, &[1; 64], Scheme::Nt);
    let returned = dial.tick.load(Ordering::SeqCst);
    assert_eq!(*memory.inner.calls.lock().unwrap(), [("store", 0)]);
    assert!(returned >= WRITE_NS * 10, "told after {returned} ticks");
}

/// A second thread's bytes queue behind the first's; latencies pass side by side, and the two directions too.
#[test]
fn bandwidth_is_shared_and_latency_is_not() {
    type Access<'a> = &'a (dyn Fn(&StorePipe, &StorePipe) -> u64 + Sync);
    let ends = |pace: Pace, accesses: [Access<'_>; 2]| {
        let (read, write) = (StorePipe::new(&pace.read, 10.0), StorePipe::new(&pace.write, 10.0));
        let mut ends: [u64; 2] = std::thread::scope(|scope| {
            accesses.map(|access| scope.spawn(|| access(&read, &write))).map(|thread| thread.join().unwrap())
        });
        ends.sort_unstable();
        ends
    };
    let pace = Pace::both(Speed::absolute(READ_NS, 1000));
    let one_ns = 4096 + READ_NS;
    let load = |read: &StorePipe, _: &StorePipe| read.queue(0, 4096);
    let store = |_: &StorePipe, write: &StorePipe| write.queue(0, 4096);
    assert_eq!(ends(pace, [&load, &load]), [one_ns * 10, (one_ns + 4096) * 10], "reads share their bandwidth");
    assert_eq!(ends(pace, [&load, &store]), [one_ns * 10; 2], "a write waits for no read");
    let read = StorePipe::new(&pace.read, 10.0);
    let ends = [read.queue(0, 4096), read.queue(1_000_000, 4096)];
    assert_eq!(ends, [one_ns * 10, 1_000_000 + one_ns * 10], "an idle pipe saves nothing up");
}

fn real() -> Option<(Tsc, Mapped)> {
    let start = Instant::now();
    let tsc = Tsc::calibrate(|| start.elapsed().as_nanos() as u64).map_err(|why| println!("skipped: {why}")).ok()?;
    let options = MapOptions { guard: Guard::None, name: "paced".into(), ..MapOptions::default() };
    Some((tsc, Mapped::anonymous(1 << 20, &options).unwrap()))
}

/// On real memory and time, no access is ever told before the time that was asked for; all its bytes are there.
#[test]
fn no_access_is_told_early() {
    let Some((tsc, mapped)) = real() else { return };
    for speed in [Speed::absolute(100, 10_000), Speed::absolute(20_000, 100), Speed::absolute(500_000, 1000)] {
        let memory = Paced::new(&mapped, Pace::both(speed), tsc).unwrap();
        for bytes in [1, 64, 4096, 65_536] {
            let (from, mut into) = (vec![bytes as u8 | 1; bytes], vec![0; bytes]);
            let least = Duration::from_nanos(speed.absolute_ns(bytes as u64) as u64);
            let start = Instant::now();
            memory.store(7, &from, Scheme::Nt);
            assert!(start.elapsed() >= least, "a store of {bytes} bytes was told early at {speed}");
            memory.fence();
            let start = Instant::now();
            memory.load(7, &mut into);
            assert!(start.elapsed() >= least, "a load of {bytes} bytes was told early at {speed}");
            assert!(into == from);
        }
    }
}

/// Threads that share a bandwidth take together what one would take for all of it, and each thread's own accesses are
/// slowed, not the first's alone.
#[test]
fn waiters_see_the_delay() {
    let Some((tsc, mapped)) = real() else { return };
    let memory = Paced::new(&mapped, Pace::both(Speed::absolute(0, 100)), tsc).unwrap();
    let (start, own) = (Instant::now(), Duration::from_nanos(10 * 655_360));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let memory = &memory;
            scope.spawn(move || {
                let start = Instant::now();
                (0..10).for_each(|_| memory.store(thread * 65_536, &[1; 65_536], Scheme::Nt));
                assert!(start.elapsed() >= own, "thread {thread} was told early: {:?}", start.elapsed());
            });
        }
    });
    assert!(start.elapsed() >= 3 * own, "30 times 64 KiB at 100 MB/s in {:?}", start.elapsed());
}

/// Around a memory that others hold too, dynamic or not, as services hold theirs.
#[test]
fn it_wraps_what_is_behind_a_pointer() {
    use std::sync::Arc;
    let Some((tsc, mapped)) = real() else { return };
    let shared: Arc<dyn Memory> = Arc::new(mapped);
    let memory: Arc<dyn Memory> = Arc::new(Paced::new(shared.clone(), Pace::both(Speed::relative(2.0)), tsc).unwrap());
    memory.store(0, b"both", Scheme::Flush);
    memory.drain().unwrap();
    let mut back = [0; 4];
    shared.load(0, &mut back);
    assert_eq!((&back, memory.size(), memory.survival()), (b"both", shared.size(), shared.survival()));
    assert!(matches!(Paced::new(shared, Pace::both(Speed::relative(0.0)), tsc), Err(crate::Error::Unsupported(_))));
}
