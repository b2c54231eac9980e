//! Many policies over one trace, in one pass, on all cores.

mod consume;
mod event_queue;
mod policy_choice;
mod study_report;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use consume::{End, Seen};
pub use policy_choice::{Choice, Numbers};
pub use study_report::{Figures, Least, Report};

use super::bank::{Bank, Counts};
use super::cache_event::Event;
use super::cache_shape::Shape;
use super::policy::Policy;
use super::set::{Narrow, Set, Wide};
use super::wear::Wear;
use super::write_counts::Writes;
use super::writeback_bound::Bound;
use super::{Geometry, policy};
use crate::{Result, host_memory};

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Model {
    /// The last level.
    pub llc: Shape,
    /// Its policies.
    pub choices: Vec<Choice>,
    /// Whether the energy of a write that misses includes a read of memory.
    pub fetch_on_write_miss: bool,
    /// The memory.
    pub wear: Wear,
    /// Threads to simulate with; the figures do not depend on it.
    pub threads: usize,
}

/// A bank under any policy.
trait Simulated: Send {
    fn run(&mut self, events: &[Event]);
    fn drain(&mut self);
    fn counts(&self) -> &Counts;
    fn writes(&self) -> &Writes;
}

impl<P: Policy, S: Set> Simulated for Bank<P, S> {
    fn run(&mut self, events: &[Event]) {
        self.run(events);
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn counts(&self) -> &Counts {
        self.counts()
    }

    fn writes(&self) -> &Writes {
        self.writes()
    }
}

/// What works on the events of one bank.
enum Work {
    Policy(Box<dyn Simulated>),
    Bound(Bound),
}

/// A trace under several policies.
pub struct Study {
    model: Model,
    geometry: Geometry,
    /// The work on the first bank for each policy and the bound, then on the second, and so on.
    work: Vec<Mutex<Work>>,
    events: u64,
    accesses: u64,
    is_cut: bool,
    sorted: Vec<Event>,
}

impl Study {
    /// Nothing seen yet. LRU is always the first of the policies, for the others are compared with it.
    ///
    /// # Errors
    /// When the sizes make no cache, or a policy does not fit it.
    pub fn new(mut model: Model) -> Result<Self> {
        model.choices.retain(|choice| *choice != Choice::Lru);
        model.choices.insert(0, Choice::Lru);
        let geometry = Geometry::of(model.llc)?;
        let what = format!("a last level of {} MiB under {} policies", model.llc.bytes >> 20, model.choices.len());
        host_memory::ensure(table_bytes(&model.choices, geometry), &what)?;
        let mut work = Vec::new();
        for _ in 0..geometry.banks() {
            for choice in &model.choices {
                work.push(Mutex::new(Work::Policy(bank(*choice, geometry)?)));
            }
            work.push(Mutex::new(Work::Bound(Bound::new(geometry))));
        }
        Ok(Self { model, geometry, work, events: 0, accesses: 0, is_cut: false, sorted: Vec::new() })
    }

    /// Whether the trace ended in a line without an end: maybe it was cut there.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Takes the next events. The more at once, the better all cores are used.
    pub fn feed(&mut self, events: &[Event]) {
        let ends = self.sort(events);
        self.events += events.len() as u64;
        let (each, sorted) = (self.model.choices.len() + 1, &self.sorted);
        let of_bank = |bank: usize| &sorted[bank.checked_sub(1).map_or(0, |before| ends[before])..ends[bank]];
        each_in_parallel(&self.work, self.model.threads, |at, work| match work {
            Work::Policy(bank) => bank.run(of_bank(at / each)),
            Work::Bound(bound) => bound.run(of_bank(at / each)),
        });
    }

    /// Writes back what is dirty, and tells all.
    pub fn finish(self, trace: &str) -> Report {
        each_in_parallel(&self.work, self.model.threads, |_, work| {
            if let Work::Policy(bank) = work {
                bank.drain();
            }
        });
        let each = self.model.choices.len() + 1;
        let mut banks: Vec<Vec<Box<dyn Simulated>>> = self.model.choices.iter().map(|_| Vec::new()).collect();
        let mut bound = 0;
        for (at, work) in self.work.into_iter().enumerate() {
            match work.into_inner().expect("nobody panicked") {
                Work::Policy(bank) => banks[at % each].push(bank),
                Work::Bound(least) => bound += least.writebacks(),
            }
        }
        let done = banks.into_iter().map(Outcome::of).collect();
        let seen = Seen { events: self.events, accesses: self.accesses };
        Report::of(&self.model, trace, seen, done, bound)
    }

    /// Puts the events bank by bank; where each bank's end.
    fn sort(&mut self, events: &[Event]) -> Vec<usize> {
        let mut ends = vec![0; self.geometry.banks()];
        for event in events {
            ends[self.geometry.bank(event.line())] += 1;
        }
        let begin = |sum: &mut usize, count: &usize| Some(std::mem::replace(sum, *sum + count));
        let mut next: Vec<usize> = ends.iter().scan(0, begin).collect();
        self.sorted.resize(events.len(), Event(0));
        for event in events {
            let next = &mut next[self.geometry.bank(event.line())];
            self.sorted[*next] = *event;
            *next += 1;
        }
        next
    }
}

/// What a policy did in all banks.
struct Outcome {
    counts: Counts,
    /// How often each line was written to memory that was, by line.
    writes: Vec<u64>,
}

impl Outcome {
    /// What is left of its banks: they hold much more memory.
    fn of(banks: Vec<Box<dyn Simulated>>) -> Self {
        let (mut counts, mut lines) = (Counts::default(), Vec::new());
        for bank in banks {
            counts += bank.counts();
            lines.extend(bank.writes().iter());
        }
        lines.sort_unstable();
        Self { counts, writes: lines.into_iter().map(|(_, count)| count).collect() }
    }
}

fn bank(choice: Choice, geometry: Geometry) -> Result<Box<dyn Simulated>> {
    choice.check(geometry.ways)?;
    let is_narrow = geometry.ways as usize <= Narrow::WAYS;
    Ok(if is_narrow { bank_of::<Narrow, 16>(choice, geometry) } else { bank_of::<Wide, 64>(choice, geometry) })
}

/// About the bytes of the tables of all banks, before any event.
fn table_bytes(choices: &[Choice], geometry: Geometry) -> u64 {
    /// What `worth` knows of a line.
    const WORTH: u64 = 12;
    let is_narrow = geometry.ways as usize <= Narrow::WAYS;
    let (set, ways) = if is_narrow { (size_of::<Narrow>(), Narrow::WAYS) } else { (size_of::<Wide>(), Wide::WAYS) };
    let tags = size_of::<u64>() as u64 * ways as u64;
    let known = |choice: &Choice| if *choice == Choice::Worth { WORTH * ways as u64 } else { 0 };
    let each = choices.iter().map(|choice| set as u64 + tags + known(choice)).sum::<u64>();
    let bound = size_of::<u64>() as u64 * u64::from(1 + geometry.ways);
    (each + bound) * geometry.banks() as u64 * u64::from(geometry.bank_sets())
}

/// A bank of sets of kind `S`, which have `W` ways.
fn bank_of<S: Set + 'static, const W: usize>(choice: Choice, geometry: Geometry) -> Box<dyn Simulated> {
    const { assert!(S::WAYS == W, "both tell of the same sets") };
    let ways = geometry.ways;
    match choice {
        Choice::Lru => boxed::<S>(geometry, policy::Lru { ways }),
        Choice::Worth => boxed::<S>(geometry, policy::Worth::<S, W>::new(geometry)),
        Choice::Protect { protected } => boxed::<S>(geometry, policy::Protect { ways, protected }),
        Choice::Partitioned { partitions, protected } => {
            boxed::<S>(geometry, policy::Partitioned { partitions, ways: ways / partitions, protected })
        }
    }
}

fn boxed<S: Set + 'static>(geometry: Geometry, policy: impl Policy + 'static) -> Box<dyn Simulated> {
    Box::new(Bank::<_, S>::of(geometry, policy))
}

/// Does `work` on each of `all`, on so many threads. Which thread does what changes nothing.
fn each_in_parallel<T: Send>(all: &[Mutex<T>], threads: usize, work: impl Fn(usize, &mut T) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some((at, one)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, all.get(at)?))) {
            work(at, &mut one.lock().expect("nobody panicked"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(all.len()) {
            // Where there are fewer threads to be had they do more each.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
}
