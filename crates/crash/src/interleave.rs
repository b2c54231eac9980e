//! Threads that run one at a time, in an order that follows from a seed.
//!
//! - CI1. Of the threads of one [`interleave`] only the holder of the baton runs. The baton passes, by seeded choice,
//!   at the start of each call on a lying memory or disk, and when a thread ends.
//! - CI2. A load or store of more than one line may be cut in two at a line, so that another thread sees half of it.
//! - CI3. A holder that sleeps in the kernel outside our calls waits for a lock of the code under test: the baton
//!   moves on. It is chosen again once it is awake. Where the kernel does not tell (no /proc), and of a lock that
//!   spins, a holder is passed over that made no call for [`POLLS_MAX`] polls.
//!
//! So a seed repeats its run as long as the code under test has no choices of its own (clocks, spinning, hash maps
//! with random keys). A thread that only computes is waited for; a thread that sleeps is taken for a blocked one.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ferrite_memory::Span;

use crate::explore::panic_text;
use crate::pages::LINE_BYTES;
use crate::seed::Seed;
use crate::thread::AsThread;

/// How often a waiting thread looks whether the holder is blocked.
const POLL: Duration = Duration::from_micros(300);
/// Looks after which a holder that never sleeps is passed over.
const POLLS_MAX: u32 = 1000;

/// What one thread does.
pub type Job<'a> = Box<dyn FnOnce() + Send + 'a>;

/// Runs `jobs` in a thread each, one at a time, switching between them by `seed` as the module says. Job `n` is
/// logical thread `n` (see [`crate::LyingMemory::as_thread`]). Returns when all have ended.
///
/// # Panics
///
/// If a job panics, naming the seed.
pub fn interleave(seed: u64, jobs: Vec<Job<'_>>) {
    let baton = Arc::new(Baton::new(seed, jobs.len()));
    let run = |number: usize, job| {
        let (baton, chair) =
            (baton.clone(), Chair { baton: baton.clone(), number, cuts: Seed::of(seed, number as u64) });
        move || chair.run(&baton, job)
    };
    let panics: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = jobs.into_iter().enumerate().map(|(number, job)| scope.spawn(run(number, job))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap_or_else(|_| Some("?".into()))).collect()
    });
    assert!(panics.is_empty(), "interleaved by seed {seed}: {}", panics.join("; "));
}

thread_local! {
    static CHAIR: RefCell<Option<Chair>> = const { RefCell::new(None) };
}

/// Passes the baton, if this thread is one of an [`interleave`].
pub(crate) fn turn() {
    let chair = CHAIR.with_borrow(|chair| chair.as_ref().map(|chair| (chair.baton.clone(), chair.number)));
    if let Some((baton, number)) = chair {
        baton.turn(number);
    }
}

/// `span` in one part or, between interleaved threads, sometimes two (CI2).
pub(crate) fn parts(span: Span) -> impl Iterator<Item = Span> {
    let line = LINE_BYTES as u64;
    let lines = (span.at + span.len).div_ceil(line) - span.at / line;
    let cut = CHAIR.with_borrow_mut(|chair| match chair {
        Some(chair) if lines > 1 => chair.cuts.below(lines),
        _ => 0,
    });
    let middle = if cut == 0 { span.at } else { (span.at / line + cut) * line };
    let head = Span::new(span.at, middle - span.at);
    let tail = Span::new(middle, span.len - head.len);
    (head.len > 0).then_some(head).into_iter().chain([tail])
}

/// A thread's place among the others.
struct Chair {
    baton: Arc<Baton>,
    number: usize,
    cuts: Seed,
}

impl Chair {
    /// Runs `job`; its panic's message, if it panics.
    fn run(self, baton: &Baton, job: Job<'_>) -> Option<String> {
        let number = self.number;
        let _played = AsThread::new(number as u32);
        CHAIR.set(Some(self));
        baton.begin(number);
        let end = catch_unwind(AssertUnwindSafe(job));
        CHAIR.set(None);
        baton.end(number);
        end.err().map(|panic| format!("thread {number} panicked: {}", panic_text(panic.as_ref())))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seat {
    Empty,
    /// Waits for the baton.
    Waiting,
    /// Has it, or is blocked or just woken since it had it.
    Running,
    Ended,
}

struct Turns {
    seats: Vec<Seat>,
    /// Where the kernel tells each thread's state.
    tasks: Vec<String>,
    holder: Option<usize>,
    passes: u64,
    seed: Seed,
    /// Chances in eight that the holder keeps the baton.
    keeps: u64,
}

struct Baton {
    turns: Mutex<Turns>,
    passed: Condvar,
    /// Whether the thread is in one of our calls, where sleeping does not mean that it is blocked.
    inside: Vec<AtomicBool>,
}

impl Baton {
    fn new(seed: u64, threads: usize) -> Self {
        let mut choices = Seed::of(seed, u64::MAX);
        let keeps = [0, 4, 7][choices.below(3) as usize];
        let (seats, tasks) = (vec![Seat::Empty; threads], vec![String::new(); threads]);
        let turns = Turns { seats, tasks, holder: None, passes: 0, seed: choices, keeps };
        let inside = (0..threads).map(|_| AtomicBool::new(true)).collect();
        Self { turns: Mutex::new(turns), passed: Condvar::new(), inside }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, me: usize) {
        let mut turns = self.turns();
        turns.tasks[me] = this_task();
        turns.seats[me] = Seat::Waiting;
        if !turns.seats.contains(&Seat::Empty) {
            self.pass(&mut turns);
        }
        self.wait(turns, me);
    }

    fn turn(&self, me: usize) {
        self.inside[me].store(true, Ordering::SeqCst);
        let mut turns = self.turns();
        turns.seats[me] = Seat::Waiting;
        if turns.holder == Some(me) {
            turns = self.calm(turns);
            if turns.seed.below(8) >= turns.keeps {
                self.pass(&mut turns);
            }
        }
        self.wait(turns, me);
    }

    fn end(&self, me: usize) {
        self.inside[me].store(true, Ordering::SeqCst);
        let mut turns = self.turns();
        turns.seats[me] = Seat::Ended;
        if turns.holder == Some(me) {
            turns = self.calm(turns);
            self.pass(&mut turns);
        }
    }

    /// Lets threads that the holder has just woken run up to their next call or their next sleep. Without this it
    /// would be chance whether one of them or the holder gets the lock next.
    fn calm<'a>(&'a self, mut turns: MutexGuard<'a, Turns>) -> MutexGuard<'a, Turns> {
        for _ in 0..POLLS_MAX {
            if self.all_asleep(&turns) {
                break;
            }
            turns = self.passed.wait_timeout(turns, POLL / 4).unwrap_or_else(PoisonError::into_inner).0;
        }
        turns
    }

    /// Gives the baton to a waiting thread; to a blocked one only where there is no other.
    fn pass(&self, turns: &mut Turns) {
        let all_of = |kind: Seat| (0..turns.seats.len()).filter(|&seat| turns.seats[seat] == kind).collect::<Vec<_>>();
        let mut able = all_of(Seat::Waiting);
        if able.is_empty() {
            able = all_of(Seat::Running);
        }
        turns.passes += 1;
        turns.holder = match able.len() as u64 {
            0 => None,
            count => Some(able[turns.seed.below(count) as usize]),
        };
        self.passed.notify_all();
    }

    /// Waits for the baton, and meanwhile takes it from a holder that is blocked.
    fn wait(&self, mut turns: MutexGuard<'_, Turns>, me: usize) {
        let (mut passes, mut polls, mut asleep) = (turns.passes, 0, 0);
        while turns.holder != Some(me) {
            turns = self.passed.wait_timeout(turns, POLL).unwrap_or_else(PoisonError::into_inner).0;
            if turns.passes != passes {
                (passes, polls, asleep) = (turns.passes, 0, 0);
            }
            if !turns.holder.is_some_and(|holder| turns.seats[holder] == Seat::Running) {
                continue;
            }
            polls += 1;
            asleep = if self.all_asleep(&turns) { asleep + 1 } else { 0 };
            if asleep == 2 || polls == POLLS_MAX {
                self.pass(&mut turns);
            }
        }
        turns.seats[me] = Seat::Running;
        self.inside[me].store(false, Ordering::SeqCst);
    }

    /// Whether every thread that neither waits for the baton nor has ended is asleep.
    fn all_asleep(&self, turns: &Turns) -> bool {
        (0..turns.seats.len()).all(|seat| turns.seats[seat] != Seat::Running || self.sleeps(turns, seat))
    }

    /// Whether the kernel says that the thread sleeps, elsewhere than in our calls. The order of the two questions
    /// matters: one that goes to sleep in our lock has said before that it is inside.
    fn sleeps(&self, turns: &Turns, seat: usize) -> bool {
        let stat = std::fs::read_to_string(&turns.tasks[seat]).unwrap_or_default();
        let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
        state == Some('S') && !self.inside[seat].load(Ordering::SeqCst)
    }
}

/// Where the kernel tells this thread's state.
fn this_task() -> String {
    let task = std::fs::read_link("/proc/thread-self").unwrap_or_default();
    format!("/proc/{}/stat", task.display())
}
