//! Threads that run one at a time, in an order that follows from a seed.
//!
//! - CI1. Of the threads of one [`interleave`] only the holder of the baton runs. The baton passes, by seeded choice,
//!   at the start of each call on a lying memory or disk, and when a thread ends.
//! - CI2. A load or store of more than one line may be cut in two at a line, so that another thread sees half of it.
//! - CI3. A holder that sleeps in the kernel outside of these calls waits for a lock of the code under test, and the
//!   baton moves on. The holder can be chosen again once it is awake. If the kernel does not report that (without
//!   /proc, or for a spinning lock), a holder that made no call for [`POLLS_MAX`] polls is passed over.
//!
//! So a seed repeats its run if the code under test makes no choices of its own (clocks, spinning, hash maps with
//! random keys). Other threads wait for a thread that computes, and take a sleeping thread for a blocked one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrite_memory::Span;

use crate::pages::LINE_BYTES;
use crate::panic_text::panic_text;
use crate::seed::Seed;
use crate::thread::AsThread;

/// The time between two checks of a waiting thread whether the holder is blocked.
const POLL: Duration = Duration::from_micros(300);
/// The number of checks after which a holder that never sleeps is passed over.
const POLLS_MAX: u32 = 1000;

/// The work of one thread.
pub type ThreadJob<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs each of `jobs` in a thread of its own, one at a time, and switches between them by `seed`, as the module
/// describes. Job `n` is logical thread `n` (see [`crate::LyingMemory::as_thread`]). Returns when all jobs have ended.
///
/// # Panics
/// If a job panics; the message names the seed.
pub fn interleave(seed: u64, jobs: Vec<ThreadJob<'_>>) {
    let baton = Arc::new(Baton::new(seed, jobs.len()));
    let run = |number: usize, job| {
        let (baton, interleaved) =
            (baton.clone(), InterleavedThread { baton: baton.clone(), number, cuts: Seed::of(seed, number as u64) });
        move || interleaved.run(&baton, job)
    };
    let panics: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().enumerate().map(|(number, job)| scope.spawn(run(number, job))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap_or_else(|_| Some("?".into()))).collect()
    });
    assert!(panics.is_empty(), "interleaved by seed {seed}: {}", panics.join("; "));
}

thread_local! {
    static INTERLEAVED: RefCell<Option<InterleavedThread>> = const { RefCell::new(None) };
}

/// Passes the baton if this thread is one of an [`interleave`].
pub(crate) fn turn() {
    let interleaved = INTERLEAVED.with_borrow(|interleaved| {
        interleaved.as_ref().map(|interleaved| (interleaved.baton.clone(), interleaved.number))
    });
    if let Some((baton, number)) = interleaved {
        baton.turn(number);
    }
}

/// Returns `span` in one part or, between interleaved threads, sometimes two (CI2).
pub(crate) fn parts(span: Span) -> impl Iterator<Item = Span> {
    let line = LINE_BYTES as u64;
    let lines = (span.at + span.len).div_ceil(line) - span.at / line;
    let cut = INTERLEAVED.with_borrow_mut(|interleaved| match interleaved {
        Some(interleaved) if lines > 1 => interleaved.cuts.below(lines),
        _ => 0,
    });
    let middle = if cut == 0 { span.at } else { (span.at / line + cut) * line };
    let head = Span::new(span.at, middle - span.at);
    let tail = Span::new(middle, span.len - head.len);
    (head.len > 0).then_some(head).into_iter().chain([tail])
}

/// One of the interleaved threads.
struct InterleavedThread {
    baton: Arc<Baton>,
    number: usize,
    cuts: Seed,
}

impl InterleavedThread {
    /// Runs `job`. Returns the message of its panic, if it panics.
    fn run(self, baton: &Baton, job: ThreadJob<'_>) -> Option<String> {
        let number = self.number;
        let _played = AsThread::new(number as u32);
        INTERLEAVED.set(Some(self));
        baton.begin(number);
        let end = catch_unwind(AssertUnwindSafe(job));
        INTERLEAVED.set(None);
        baton.end(number);
        end.err().map(|panic| format!("thread {number} panicked: {}", panic_text(panic.as_ref())))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ThreadSeat {
    Empty,
    /// Waits for the baton.
    Waiting,
    /// Has the baton, or is blocked or newly woken since it had the baton.
    Running,
    Ended,
}

struct BatonTurns {
    seats: Vec<ThreadSeat>,
    /// The file in /proc with the state of each thread.
    tasks: Vec<String>,
    holder: Option<usize>,
    passes: u64,
    seed: Seed,
    /// The chances in eight that the holder keeps the baton.
    keeps: u64,
}

struct Baton {
    turns: Mutex<BatonTurns>,
    passed: Condvar,
    /// True while the thread is in a call of this module, where a sleeping thread is not blocked.
    inside: Vec<AtomicBool>,
}

impl Baton {
    fn new(seed: u64, threads: usize) -> Self {
        let mut choices = Seed::of(seed, u64::MAX);
        let keeps = [0, 4, 7][choices.below(3) as usize];
        let (seats, tasks) = (vec![ThreadSeat::Empty; threads], vec![String::new(); threads]);
        let turns = BatonTurns { seats, tasks, holder: None, passes: 0, seed: choices, keeps };
        let inside = (0..threads).map(|_| AtomicBool::new(true)).collect();
        Self { turns: Mutex::new(turns), passed: Condvar::new(), inside }
    }

    fn turns(&self) -> MutexGuard<'_, BatonTurns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, me: usize) {
        let mut turns = self.turns();
        turns.tasks[me] = this_task();
        turns.seats[me] = ThreadSeat::Waiting;
        if !turns.seats.contains(&ThreadSeat::Empty) {
            self.pass(&mut turns);
        }
        self.wait(turns, me);
    }

    fn turn(&self, me: usize) {
        self.inside[me].store(true, Ordering::SeqCst);
        let mut turns = self.turns();
        turns.seats[me] = ThreadSeat::Waiting;
        if turns.holder == Some(me) {
            turns = self.let_woken_threads_run(turns);
            if turns.seed.below(8) >= turns.keeps {
                self.pass(&mut turns);
            }
        }
        self.wait(turns, me);
    }

    fn end(&self, me: usize) {
        self.inside[me].store(true, Ordering::SeqCst);
        let mut turns = self.turns();
        turns.seats[me] = ThreadSeat::Ended;
        if turns.holder == Some(me) {
            turns = self.let_woken_threads_run(turns);
            self.pass(&mut turns);
        }
    }

    /// Waits until the threads that the holder has woken run to their next call or sleep. Otherwise chance would decide
    /// whether one of them or the holder gets the lock next.
    fn let_woken_threads_run<'a>(&'a self, mut turns: MutexGuard<'a, BatonTurns>) -> MutexGuard<'a, BatonTurns> {
        for _ in 0..POLLS_MAX {
            if self.all_asleep(&turns) {
                break;
            }
            turns = self.passed.wait_timeout(turns, POLL / 4).unwrap_or_else(PoisonError::into_inner).0;
        }
        turns
    }

    /// Gives the baton to a waiting thread, or to a blocked one if no thread waits.
    fn pass(&self, turns: &mut BatonTurns) {
        let all_of =
            |kind: ThreadSeat| (0..turns.seats.len()).filter(|&seat| turns.seats[seat] == kind).collect::<Vec<_>>();
        let mut able = all_of(ThreadSeat::Waiting);
        if able.is_empty() {
            able = all_of(ThreadSeat::Running);
        }
        turns.passes += 1;
        turns.holder = match able.len() as u64 {
            0 => None,
            count => Some(able[turns.seed.below(count) as usize]),
        };
        self.passed.notify_all();
    }

    /// Waits for the baton, and passes it on if its holder is blocked.
    fn wait(&self, mut turns: MutexGuard<'_, BatonTurns>, me: usize) {
        let (mut passes, mut polls, mut asleep) = (turns.passes, 0, 0);
        while turns.holder != Some(me) {
            turns = self.passed.wait_timeout(turns, POLL).unwrap_or_else(PoisonError::into_inner).0;
            if turns.passes != passes {
                (passes, polls, asleep) = (turns.passes, 0, 0);
            }
            if !turns.holder.is_some_and(|holder| turns.seats[holder] == ThreadSeat::Running) {
                continue;
            }
            polls += 1;
            asleep = if self.all_asleep(&turns) { asleep + 1 } else { 0 };
            if asleep == 2 || polls == POLLS_MAX {
                self.pass(&mut turns);
            }
        }
        turns.seats[me] = ThreadSeat::Running;
        self.inside[me].store(false, Ordering::SeqCst);
    }

    /// Returns true if every thread is asleep, except those that wait for the baton or have ended.
    fn all_asleep(&self, turns: &BatonTurns) -> bool {
        (0..turns.seats.len()).all(|seat| turns.seats[seat] != ThreadSeat::Running || self.sleeps(turns, seat))
    }

    /// Returns true if the thread sleeps outside of this module's calls. The state is read first: a thread that goes to
    /// sleep in a lock of this module has set `inside` before.
    fn sleeps(&self, turns: &BatonTurns, seat: usize) -> bool {
        let stat = std::fs::read_to_string(&turns.tasks[seat]).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state == Some('S') && !self.inside[seat].load(Ordering::SeqCst)
    }
}

/// Returns the file in /proc with the state of this thread.
fn this_task() -> String {
    let task = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    format!("/proc/{}/stat", task.display())
}
