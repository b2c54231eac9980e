//! Many policies over one trace, in one pass, on all cores.

mod consume;
mod event_queue;
mod policy_choice;
mod study_report;

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use consume::{StudyEnd, StudyProgress};
pub use policy_choice::{PolicyChoice, PolicyDefaults};
pub use study_report::{BoundFigures, PolicyFigures, StudyReport};

use super::bank::{Bank, BankCounts};
use super::cache_event::CacheEvent;
use super::cache_shape::CacheShape;
use super::policy::Policy;
use super::set::{NarrowSet, Set, WideSet};
use super::wear::WearModel;
use super::write_counts::WriteCounts;
use super::writeback_bound::WritebackBound;
use super::{BankGeometry, policy};
use crate::{Result, host_memory};

/// The simulated caches and memory.
#[derive(Clone, Debug)]
pub struct CacheModel {
    /// The shape of the last level.
    pub llc: CacheShape,
    /// The policies.
    pub choices: Vec<PolicyChoice>,
    /// True if the energy of a write that misses includes a read of memory.
    pub fetch_on_write_miss: bool,
    /// The memory.
    pub wear: WearModel,
    /// Threads of the simulation; the figures do not depend on their number.
    pub threads: usize,
}

/// A bank under any policy.
trait SimulatedBank: Send {
    fn run(&mut self, events: &[CacheEvent]);
    fn drain(&mut self);
    fn counts(&self) -> &BankCounts;
    fn writes(&self) -> &WriteCounts;
}

impl<P: Policy, S: Set> SimulatedBank for Bank<P, S> {
    fn run(&mut self, events: &[CacheEvent]) {
        self.run(events);
    }

    fn drain(&mut self) {
        self.drain();
    }

    fn counts(&self) -> &BankCounts {
        self.counts()
    }

    fn writes(&self) -> &WriteCounts {
        self.writes()
    }
}

/// The simulation of one bank: a policy, or the bound.
enum BankWork {
    Policy(Box<dyn SimulatedBank>),
    Bound(WritebackBound),
}

/// A trace under several policies.
pub struct Study {
    model: CacheModel,
    geometry: BankGeometry,
    /// The work on the first bank for each policy and the bound, then on the second, and so on.
    work: Vec<Mutex<BankWork>>,
    events: u64,
    accesses: u64,
    is_cut: bool,
    sorted: Vec<CacheEvent>,
}

impl Study {
    /// Returns a study of no events. LRU is always the first of the policies, because the others are compared with it.
    ///
    /// # Errors
    /// The sizes describe no cache, or a policy does not fit the cache.
    pub fn new(mut model: CacheModel) -> Result<Self> {
        model.choices.retain(|choice| *choice != PolicyChoice::Lru);
        model.choices.insert(0, PolicyChoice::Lru);
        let geometry = BankGeometry::of(model.llc)?;
        let what = format!("a last level of {} MiB under {} policies", model.llc.bytes >> 20, model.choices.len());
        host_memory::ensure(table_bytes(&model.choices, geometry), &what)?;
        let mut work = Vec::new();
        for _ in 0..geometry.banks() {
            for choice in &model.choices {
                work.push(Mutex::new(BankWork::Policy(bank(*choice, geometry)?)));
            }
            work.push(Mutex::new(BankWork::Bound(WritebackBound::new(geometry))));
        }
        Ok(Self { model, geometry, work, events: 0, accesses: 0, is_cut: false, sorted: Vec::new() })
    }

    /// Returns true if the last line of the trace has no end, so the trace may be cut there.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Applies the next events. More events at once use all cores better.
    pub fn feed(&mut self, events: &[CacheEvent]) {
        let ends = self.sort(events);
        self.events += events.len() as u64;
        let (each, sorted) = (self.model.choices.len() + 1, &self.sorted);
        let of_bank = |bank: usize| &sorted[bank.checked_sub(1).map_or(0, |before| ends[before])..ends[bank]];
        each_in_parallel(&self.work, self.model.threads, |at, work| match work {
            BankWork::Policy(bank) => bank.run(of_bank(at / each)),
            BankWork::Bound(bound) => bound.run(of_bank(at / each)),
        });
    }

    /// Writes back every dirty line and returns the report.
    pub fn finish(self, trace: &str) -> StudyReport {
        each_in_parallel(&self.work, self.model.threads, |_, work| {
            if let BankWork::Policy(bank) = work {
                bank.drain();
            }
        });
        let each = self.model.choices.len() + 1;
        let mut banks: Vec<Vec<Box<dyn SimulatedBank>>> = self.model.choices.iter().map(|_| Vec::new()).collect();
        let mut bound = 0;
        for (at, work) in self.work.into_iter().enumerate() {
            match work.into_inner().expect("no thread panicked") {
                BankWork::Policy(bank) => banks[at % each].push(bank),
                BankWork::Bound(least) => bound += least.writebacks(),
            }
        }
        let done = banks.into_iter().map(PolicyOutcome::of).collect();
        let seen = StudyProgress { events: self.events, accesses: self.accesses };
        StudyReport::of(&self.model, trace, seen, done, bound)
    }

    /// Sorts the events by bank. Returns the end of each bank's events.
    fn sort(&mut self, events: &[CacheEvent]) -> Vec<usize> {
        let mut ends = vec![0; self.geometry.banks()];
        for event in events {
            ends[self.geometry.bank(event.line())] += 1;
        }
        let begin = |sum: &mut usize, count: &usize| Some(std::mem::replace(sum, *sum + count));
        let mut next: Vec<usize> = ends.iter().scan(0, begin).collect();
        self.sorted.resize(events.len(), CacheEvent(0));
        for event in events {
            let next = &mut next[self.geometry.bank(event.line())];
            self.sorted[*next] = *event;
            *next += 1;
        }
        next
    }
}

/// The result of a policy in all banks.
struct PolicyOutcome {
    counts: BankCounts,
    /// How often each line was written to memory, of the lines that were written, by line.
    writes: Vec<u64>,
}

impl PolicyOutcome {
    /// Returns the result of a policy's banks, which use much more memory.
    fn of(banks: Vec<Box<dyn SimulatedBank>>) -> Self {
        let (mut counts, mut lines) = (BankCounts::default(), Vec::new());
        for bank in banks {
            counts += bank.counts();
            lines.extend(bank.writes().iter());
        }
        lines.sort_unstable();
        Self { counts, writes: lines.into_iter().map(|(_, count)| count).collect() }
    }
}

fn bank(choice: PolicyChoice, geometry: BankGeometry) -> Result<Box<dyn SimulatedBank>> {
    choice.check(geometry.ways)?;
    let is_narrow = geometry.ways as usize <= NarrowSet::WAYS;
    Ok(if is_narrow { bank_of::<NarrowSet, 16>(choice, geometry) } else { bank_of::<WideSet, 64>(choice, geometry) })
}

/// Returns the approximate bytes of the tables of all banks, before any event.
fn table_bytes(choices: &[PolicyChoice], geometry: BankGeometry) -> u64 {
    /// Bytes that `worth` stores for a line.
    const WORTH: u64 = 12;
    let is_narrow = geometry.ways as usize <= NarrowSet::WAYS;
    let (set, ways) =
        if is_narrow { (size_of::<NarrowSet>(), NarrowSet::WAYS) } else { (size_of::<WideSet>(), WideSet::WAYS) };
    let tags = size_of::<u64>() as u64 * ways as u64;
    let known = |choice: &PolicyChoice| if *choice == PolicyChoice::Worth { WORTH * ways as u64 } else { 0 };
    let each = choices.iter().map(|choice| set as u64 + tags + known(choice)).sum::<u64>();
    let bound = size_of::<u64>() as u64 * u64::from(1 + geometry.ways);
    (each + bound) * geometry.banks() as u64 * u64::from(geometry.bank_sets())
}

/// Returns a bank with sets of kind `S`, which have `W` ways.
fn bank_of<S: Set + 'static, const W: usize>(choice: PolicyChoice, geometry: BankGeometry) -> Box<dyn SimulatedBank> {
    const { assert!(S::WAYS == W, "both tell of the same sets") };
    let ways = geometry.ways;
    match choice {
        PolicyChoice::Lru => boxed::<S>(geometry, policy::Lru { ways }),
        PolicyChoice::Worth => boxed::<S>(geometry, policy::Worth::<S, W>::new(geometry)),
        PolicyChoice::Protect { protected } => boxed::<S>(geometry, policy::Protect { ways, protected }),
        PolicyChoice::Partitioned { partitions, protected } => {
            boxed::<S>(geometry, policy::Partitioned { partitions, ways: ways / partitions, protected })
        }
    }
}

fn boxed<S: Set + 'static>(geometry: BankGeometry, policy: impl Policy + 'static) -> Box<dyn SimulatedBank> {
    Box::new(Bank::<_, S>::of(geometry, policy))
}

/// Calls `work` for each of `all`, on `threads` threads. The assignment to threads has no effect on results.
fn each_in_parallel<T: Send>(all: &[Mutex<T>], threads: usize, work: impl Fn(usize, &mut T) + Sync) {
    let next = AtomicUsize::new(0);
    let run = || {
        while let Some((at, one)) = Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, all.get(at)?))) {
            work(at, &mut one.lock().expect("no thread panicked"));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(all.len()) {
            // If fewer threads can be started, each does more.
            let _ = std::thread::Builder::new().spawn_scoped(scope, run);
        }
        run();
    });
}
